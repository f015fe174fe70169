"""Make the animation of a terminal in docs/: ``python -m scripts.terminal [FILE]`` (half a minute).

It starts a server with the sample site, runs commands in a terminal, and draws what they print, 20 seconds in a loop.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs/pictures/terminal.svg"
QUERY = "'resources_C=PCPU:8,MEMORY_MB:16384&resources_G=PGPU:1&same_subtree=_C,_G'"
COMMANDS = (
    ("What is there?", "stead tree gpu1"),
    ("Where does this fit: 8 cores, memory and a GPU of one NUMA node?", f"stead candidates --limit 1 {QUERY}"),
    ("How many more fit, and what runs out first?", f"stead headroom {QUERY}"),
    (
        "Run a command on a GPU that is claimed while it runs.",
        "stead run -r PGPU:1 -- sh -c 'echo GPU $CUDA_VISIBLE_DEVICES'",
    ),
)
COLUMNS = 84
SECONDS = 5
"""Of each command."""

_WIDTH, _HEIGHT = 8.0, 18
_MARGIN = 20
_COLOURS = {31: "#ff9b9b", 32: "#7fd6a4", 33: "#f5b567", 34: "#8ab4ff", 36: "#79c8e8", 90: "#78828f"}
_STYLE = re.compile(r"\x1b\[([0-9;]*)m")


class Run(NamedTuple):
    """A part of a line in one style."""

    column: int
    text: str
    look: str


def main() -> None:
    """Make the file."""
    file = Path(sys.argv[1]) if len(sys.argv) > 1 else FILE
    with TemporaryDirectory() as home:
        environment = dict(
            os.environ,
            HOME=home,
            XDG_DATA_HOME=f"{home}/share",
            PATH=f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        )
        server = subprocess.Popen(
            ["stead", "--json", "serve", "--port", "0"],
            cwd=home,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        try:
            assert server.stdout is not None
            server.stdout.readline()  # it listens
            apply = ["stead", "topology", "apply", str(ROOT / "samples/site.yaml")]
            subprocess.run(apply, env=environment, check=True, capture_output=True)
            screens = [(question, command, in_terminal(command, environment)) for question, command in COMMANDS]
        finally:
            server.terminate()
            server.wait(60)
    file.write_text(drawn(screens))


def in_terminal(command: str, environment: dict[str, str]) -> str:
    """What *command* prints in a terminal."""
    pid, terminal = pty.fork()
    if not pid:
        os.execvpe("sh", ["sh", "-c", f"stty cols {COLUMNS}; {command}"], environment | {"TERM": "xterm-256color"})
    printed = b""
    while True:
        try:
            part = os.read(terminal, 65536)
        except OSError:  # the command has ended
            break
        if not part:
            break
        printed += part
    _, status = os.waitpid(pid, 0)
    assert not status, printed.decode()
    return printed.decode().replace("\r\n", "\n").rstrip("\n")


def runs(line: str) -> Iterator[Run]:
    """The parts of a line."""
    column, place, look = 0, 0, ""
    for match in [*_STYLE.finditer(line), None]:
        text = line[place : match.start() if match else None]
        if text.strip():
            yield Run(column, text, look)
        column += len(text)
        if match:
            codes = [int(code) for code in match[1].split(";") if code]
            parts = [f"c{code}" for code in codes if code in _COLOURS]
            parts += [name for code, name in ((1, "b"), (2, "d")) if code in codes]
            look, place = " ".join(parts), match.end()


def drawn(screens: Sequence[tuple[str, str, str]]) -> str:
    """The animation as SVG."""
    lines = max(len(output.splitlines()) for _, _, output in screens) + 4
    width, height = COLUMNS * _WIDTH + 2 * _MARGIN, lines * _HEIGHT + 2 * _MARGIN + 16
    total = SECONDS * len(screens)
    looks = "".join(f".c{code}{{fill:{colour}}}" for code, colour in _COLOURS.items())
    frames, groups = [], []
    for number, (question, command, output) in enumerate(screens):
        start, end = 100 * number / len(screens), 100 * (number + 1) / len(screens)
        typed = start + (end - start) * 0.25
        before = f"0%,{start:.2f}%{{opacity:0}}" if number else ""
        frames.append(
            f"@keyframes s{number}{{{before}{start + 0.01:.2f}%,{end - 0.01:.2f}%{{opacity:1}}"
            f"{end:.2f}%,100%{{opacity:0}}}}"
            f"@keyframes o{number}{{0%,{typed:.2f}%{{opacity:0}}{typed + 0.01:.2f}%,100%{{opacity:1}}}}"
            f"@keyframes t{number}{{0%,{start:.2f}%{{transform:scaleX(0)}}{typed:.2f}%,100%{{transform:scaleX(1)}}}}"
            f".s{number}{{animation:s{number} {total}s infinite}}.o{number}{{animation:o{number} {total}s infinite}}"
            f".t{number}{{animation:t{number} {total}s infinite;transform-origin:{_MARGIN}px 0}}"
        )
        top = _MARGIN + 28
        parts = [_text(Run(0, f"# {question}", "c90"), top)]
        prompt = _text(Run(0, "$ ", "c32 b"), top + _HEIGHT)
        prompt += "".join(
            _text(Run(2, part, "b"), top + (row + 1) * _HEIGHT) for row, part in enumerate(wrapped(command))
        )
        parts.append(
            f'<clipPath id="p{number}"><rect class="t{number}" x="{_MARGIN}" y="{top + _HEIGHT}" '
            f'width="{width - 2 * _MARGIN}" height="{2 * _HEIGHT + 4}"/></clipPath>'
            f'<g clip-path="url(#p{number})">{prompt}</g>'
        )
        shown = "".join(
            _text(run, top + (row + 1 + len(wrapped(command))) * _HEIGHT + 6)
            for row, line in enumerate(output.splitlines())
            for run in runs(line)
        )
        parts.append(f'<g class="o{number}">{shown}</g>')
        groups.append(f'<g class="s{number}">{"".join(parts)}</g>')
    still = "".join(f".s{number}{{opacity:{int(number == 1)}}}" for number in range(len(screens)))
    words = "; ".join(f"{question} {command}" for question, command, _ in screens)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        'role="img" '
        f'aria-label="{escape(f"A terminal: {words}")}"><style>text{{font:13px ui-monospace,Menlo,Consolas,'
        f"'DejaVu Sans Mono',monospace;fill:#e4e8ee;white-space:pre}}{looks}.b{{font-weight:700}}.d{{opacity:.7}}"
        f"{''.join(frames)}@media(prefers-reduced-motion:reduce){{g,rect{{animation:none!important}}{still}}}</style>"
        f'<rect width="100%" height="100%" rx="10" fill="#0f1217"/>'
        + "".join(f'<circle cx="{18 + 16 * dot}" cy="18" r="5" fill="#2a303a"/>' for dot in range(3))
        + "".join(groups)
        + "</svg>\n"
    )


def wrapped(command: str) -> list[str]:
    """The lines of a command that is longer than a line of the terminal."""
    if len(command) + 2 <= COLUMNS:
        return [command]
    start, quote, query = command.partition("'")
    return [f"{start}\\", f"  {quote}{query}"]


def _text(run: Run, y: float) -> str:
    """A text at its column, as wide as the terminal has it, whatever font a reader has."""
    style = f' class="{run.look}"' if run.look else ""
    x, length = _MARGIN + run.column * _WIDTH, len(run.text) * _WIDTH
    return (
        f'<text{style} x="{x:g}" y="{y + 13:g}" textLength="{length:g}" lengthAdjust="spacingAndGlyphs" '
        f'xml:space="preserve">{escape(run.text, quote=False)}</text>'
    )


if __name__ == "__main__":
    main()
