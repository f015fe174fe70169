"""``stead topology``: describe a site in a file, and make the server say the same."""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count as numbers
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import typer

from stead.cli.client import connect
from stead.cli.errors import NO, CommandError
from stead.cli.options import options
from stead.cli.output import console, print_json, say, show
from stead.cli.site_server import Outcome, Overcommits, Watcher, read_site, rehearse
from stead.cli.site_server import apply as apply_site
from stead.domain.printable import one_line, printable
from stead.topology.document import MAX_BYTES as MAX_SITE_BYTES
from stead.topology.document import as_data, dump, load
from stead.topology.hwloc import Options, describe
from stead.topology.machine import MAX_BYTES, read_xml
from stead.topology.plan import SetInventories
from stead.topology.site import Description, Site, SiteError, site_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from stead.topology.plan import InventoryChange, Step

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Load, save and generate provider trees as files.")

_NUMBER = re.compile(r"\{n(?::0(\d))?\}")
_SHARE_ALL = "all"
_NO_DEVICES = (
    "no I/O devices in the file, so its hosts get no GPUs, NICs or disks; "
    "if they have some, run `lstopo --of xml` on the machine itself, without --no-io"
)
_PIECE = 1024 * 1024  # bytes


@app.command("apply")
def apply_files(
    files: Annotated[
        list[Path], typer.Argument(help="Site files, together one site; - reads standard input.", metavar="FILE...")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Remove inventories, traits and aggregates of the files' providers that the files lack."
        ),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="As --exact, and delete all providers that the files do not describe."),
    ] = False,
    allow_overcommit: Annotated[
        bool,
        typer.Option("--allow-overcommit", help="Also make inventories smaller than what is allocated from them."),
    ] = False,
) -> None:
    """Make the server's providers what the files say; what is in use is neither removed nor made too small."""
    with _refusing():
        described = _load(files)
        with connect() as api, _watched() as watcher:
            if dry_run:
                outcome = rehearse(api, described, watcher, exact=exact, prune=prune)
            else:
                outcome = apply_site(
                    api, described, watcher, exact=exact, prune=prune, allow_overcommit=allow_overcommit
                )
    _report(outcome, len(described.providers), dry_run=dry_run)
    if outcome.overcommitted and not allow_overcommit:
        raise Overcommits(outcome.overcommitted)
    if outcome.kept:
        raise typer.Exit(NO)


@app.command("dump")
def dump_site() -> None:
    """Write the server's providers as a site file."""
    with _refusing():
        with connect() as api, _watched() as watcher:
            site = read_site(api, watcher)
        _write(site)


@app.command()
def hwloc(
    machines: Annotated[
        list[Path],
        typer.Argument(help="Output of `lstopo --of xml`; - reads standard input.", metavar="MACHINE.xml..."),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            help="The host's name; the one in the file, if not given. {n} stands for 1, 2, 3, …; {n:02} for 01, 02, …."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Number of hosts like each file.")] = 1,
    shared: Annotated[
        str, typer.Option(help="Hardware threads of a NUMA node that guests share, as VCPU; or all. The rest is PCPU.")
    ] = "0",
    vcpu_ratio: Annotated[float, typer.Option(min=0.0, max=1000.0, help="Allocation ratio of VCPU.")] = 1.0,
    aggregate: Annotated[
        list[str] | None, typer.Option(help="UUID of an aggregate the hosts belong to; may be repeated.")
    ] = None,
) -> None:
    """Write real machines as a site file: hosts, NUMA nodes, memory without CPUs, GPUs, NICs, NVMe disks."""
    has_one_name = count > 1 if name is None else len(machines) * count > 1 and not _NUMBER.search(name)
    if has_one_name:
        raise CommandError("several hosts need different names: give a --name with {n} in it")
    with _refusing():
        chosen = Options(_shared(shared), vcpu_ratio, frozenset(_uuid(one) for one in aggregate or ()))
        number = numbers(1)
        descriptions: list[Description] = []
        without_devices: list[str] = []
        for path in machines:
            machine = read_xml(_read(path, MAX_BYTES), _called(path))
            if not machine.shows_devices:
                without_devices.append(_called(path))
            for _ in range(count):
                host = None if name is None else _numbered(name, next(number))
                descriptions.extend(describe(machine, host, chosen, source=_called(path)))
        _write(site_of(descriptions))
    for file in dict.fromkeys(without_devices):
        print(f"stead: warning: {printable(file)}: {_NO_DEVICES}", file=sys.stderr)


@contextmanager
def _refusing() -> Iterator[None]:
    """A site that cannot be used ends the command as refused."""
    try:
        yield
    except SiteError as error:
        raise CommandError(str(error)) from error


def _load(files: list[Path]) -> Site:
    descriptions: list[Description] = []
    for path in files:
        try:
            text = _read(path, MAX_SITE_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise SiteError(f"{_called(path)}: not a site file: it is not UTF-8 text") from error
        descriptions.extend(load(text, _called(path)).providers.values())
    return site_of(descriptions)


def _read(path: Path, limit: int) -> bytes:
    """The whole of the file or stream, of which at most one piece beyond *limit* bytes is ever read.

    Raises:
        CommandError: it cannot be read, or it goes on after *limit* bytes, as a device without an end does.
    """
    try:
        if path != Path("-"):
            with path.open("rb") as file:
                return _up_to(limit, file, _called(path))
        if sys.stdin is None:  # as after `<&-`
            raise CommandError("standard input is closed")
        return _up_to(limit, sys.stdin.buffer, _called(path))
    except OSError as error:
        raise CommandError(f"{_called(path)}: {error.strerror or error}") from error


def _up_to(limit: int, stream: BinaryIO, called: str) -> bytes:
    data = bytearray()
    while piece := stream.read(_PIECE):
        data += piece
        if len(data) > limit:
            raise CommandError(f"{called}: larger than {limit // 1024 // 1024} MiB")
    return bytes(data)


def _called(path: Path) -> str:
    """What messages call the file."""
    return "standard input" if path == Path("-") else str(path)


def _numbered(template: str, number: int) -> str:
    return _NUMBER.sub(lambda found: f"{number:0{found[1] or 1}}", template)


def _shared(text: str) -> int | None:
    if text == _SHARE_ALL:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise CommandError(f"--shared takes a number of hardware threads or {_SHARE_ALL}, not {text!r}")
    return int(text)


def _uuid(text: str) -> str:
    from uuid import UUID

    try:
        return str(UUID(text))
    except ValueError:
        raise CommandError(f"--aggregate takes a UUID, not {text!r}") from None


def _write(site: Site) -> None:
    if options().json:
        print_json(as_data(site))
    else:
        sys.stdout.write(dump(site))


@contextmanager
def _watched() -> Iterator[Watcher]:
    """A progress bar on stderr, if somebody sits there."""
    terminal = console(stderr=True)
    if not terminal.is_terminal:
        yield Watcher()
        return
    from rich.progress import Progress

    with Progress(console=terminal, transient=True) as progress:
        task = progress.add_task("", total=None)

        def begin(work: str, size: int) -> None:
            progress.reset(task, description=work, total=size)

        yield Watcher(begin, lambda: progress.advance(task))


def _report(outcome: Outcome, described: int, *, dry_run: bool) -> None:
    if options().json:
        print_json(
            {
                "dry_run": dry_run,
                "described": described,
                "steps": [_as_json(step) for step in outcome.steps],
                "overcommitted": [
                    {"provider": one.provider, **_change_as_json(one.change)} for one in outcome.overcommitted
                ],
                "kept": [
                    {"provider": kept.provider, "resource_class": kept.resource_class, "reason": kept.reason}
                    for kept in outcome.kept
                ],
            }
        )
        return
    if dry_run:
        for step in outcome.steps:
            _show_step(step)
    show(_summary(outcome, described, dry_run=dry_run))
    for kept in outcome.kept:
        say(one_line(str(kept)))
    for overcommitted in outcome.overcommitted:
        say(one_line(f"over-committed: {overcommitted}"))


def _show_step(step: Step) -> None:
    """A line for the step, and one for each inventory that it changes."""
    if not isinstance(step, SetInventories):
        say(one_line(str(step)))
        return
    say(one_line(f"set inventories of {step.name}:"))
    for change in step.changes:
        say(f"  {change}", indent=4)


def _as_json(step: Step) -> dict[str, Any]:
    shown = {"action": type(step).__name__, "name": step.name, "text": str(step)}
    if isinstance(step, SetInventories):
        return {**shown, "inventories": [_change_as_json(change) for change in step.changes]}
    return shown


def _change_as_json(change: InventoryChange) -> dict[str, Any]:
    """The whole records before and after; null where there is none."""
    before, after = (
        None if inventory is None else {**asdict(inventory), "capacity": inventory.capacity}
        for inventory in (change.before, change.after)
    )
    return {"resource_class": change.resource_class, "before": before, "after": after, "used": change.used}


_ROWS = {
    "CreateClass": "resource classes created",
    "CreateTrait": "traits created",
    "CreateProvider": "providers created",
    "MoveProvider": "providers moved",
    "SetInventories": "providers whose inventories changed",
    "SetTraits": "providers whose traits changed",
    "SetAggregates": "providers whose aggregates changed",
    "DeleteProvider": "providers deleted",
}


def _summary(outcome: Outcome, described: int, *, dry_run: bool) -> Any:
    from rich.table import Table

    amounts = Counter(type(step).__name__ for step in outcome.steps)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(justify="right")
    table.add_column()
    table.add_row(str(described), "providers described")
    for action, words in _ROWS.items():
        if amounts[action]:
            table.add_row(str(amounts[action]), words)
    if not outcome.steps:
        table.add_row("0", "changes: none; the server already matches")
    if outcome.kept:
        table.add_row(str(len(outcome.kept)), "kept, although not described")
    if dry_run:
        table.add_row("", "(a dry run: nothing was done)")
    return table
