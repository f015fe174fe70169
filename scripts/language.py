"""Measure how plain the English of the docs is: ``python -m scripts.language``.

The measure is the length of sentences and the words of a table: words that a reader must translate. Code, headings and
cells of tables that are no sentences do not count.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

ROOT = Path(__file__).parent.parent

MEDIAN, LONGEST = 17, 25
"""Words of a sentence: at most so long are half of the sentences of a page, and all of them."""

VAGUE = {"found", "some", "one", "left", "wanted", "of", "kept", "held", "known"}
"""Names of variables that do not say what the variable holds."""

INSTEAD = {
    r"can not|(?:is|are|be) (?:not )?able to": "cannot, can",
    r"(?:was|were) faster": "another client changed it first",
    r"anew|once more": "again",
    r"so many|as many as": "up to N, N",
    r"shall": "must (a rule), should (advice)",
    r"there is not": "does not exist",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"pictures?": "catalog, snapshot; chart, diagram",
    r"what is held|is held by|whoever holds": "allocations",
    r"let(?:s|ting)? go of|giv(?:e|es|ing) back|gave back": "release",
    r"(?:some|no|every)body|everyone|whoever|who ever": "the client, the server, a worker, the operator, …",
    r"the books|in its books": "allocations and inventories, the database",
    r"tak(?:e|es|ing) turns": "run one after another",
    r"tak(?:e|es|ing) leave": "drain, drains",
    r"strangers?": "unknown client",
    r"is worth|are worth": "valid",
    r"for ever": "forever",
    r"of ours|of ourselves": "the owner's name",
    r"house": "project, packages",
}
"""Expressions that do not occur, and what to write."""

MATCHED = frozenset({"Empty string (unsuffixed group) can not be specified in `{}` "})
"""Messages on which clients match: they stay as the OpenStack service has them."""

_WORDS = re.compile(rf"\b(?:{'|'.join(INSTEAD)})\b", re.IGNORECASE)
_ACTOR = re.compile(r"(?:^|(?<=[.:;!?] ))(Others|(?:Who|What)(?! (?:is|are|do|does|to|happens|each|you)\b))\b")
"""A sentence whose subject is a pronoun: "Who asks for more gets 410"."""

_FENCE = re.compile(r"^( *)```.*?^\1```", re.DOTALL | re.MULTILINE)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_CODE = re.compile(r"(`+).+?\1", re.DOTALL)
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_START_OF_ITEM = re.compile(r"^ *(?:[-*+]|\d+\.) +")
_END_OF_SENTENCE = re.compile(r"(?<=[.!?])(?<!e\.g\.)(?<!i\.e\.)(?<!vs\.)[)\"]? +(?=[A-Z\"(`*\[…]|\d)")


def plain(text: str) -> str:
    """*text* without marks: a piece of code and a link are the words of a sentence."""
    text = _CODE.sub("Code", text)
    return _LINK.sub(r"\1", text).replace("**", "").replace("*", "")


def blocks(markdown: str) -> Iterator[str]:
    """The paragraphs, items and cells of a page, each in one line."""
    text = _COMMENT.sub("", _FENCE.sub("", markdown))
    paragraph: list[str] = []
    for line in [*text.splitlines(), ""]:
        is_row = line.lstrip().startswith("|")
        is_heading = line.startswith("#")
        starts = not line.strip() or is_row or is_heading or _START_OF_ITEM.match(line)
        if starts and paragraph:
            yield " ".join(paragraph)
            paragraph = []
        if is_row:
            cells = (part.strip() for cell in re.split(r"(?<!\\)\|", line) for part in cell.split("<br>"))
            yield from (cell for cell in cells if cell.endswith((".", "?", "!")))
        elif line.strip() and not is_heading and not line.startswith(("!!!", "===", "---")):
            paragraph.append(_START_OF_ITEM.sub("", line).strip())


def sentences(markdown: str) -> list[str]:
    """The sentences of a page."""
    return [
        sentence
        for block in blocks(markdown)
        for sentence in _END_OF_SENTENCE.split(plain(block))
        if re.search(r"[a-z]", sentence)
    ]


def lengths(markdown: str) -> list[int]:
    """How many words each sentence has, the shortest first."""
    return sorted(map(word_count, sentences(markdown)))


def word_count(sentence: str) -> int:
    """How many words *sentence* has."""
    return len(re.findall(r"\w[\w'.,/:-]*", sentence))


def quantile(values: list[int], share: float) -> int:
    """The value that *share* of the sorted *values* do not exceed."""
    return values[min(len(values) - 1, int(len(values) * share))] if values else 0


def hits(text: str) -> list[str]:
    """Each expression of the word table in *text*, code left out; and each subject that is a pronoun."""
    return unusual_words(text) + [match[1] for match in _ACTOR.finditer(_words_of(text))]


def unusual_words(text: str) -> list[str]:
    """Each expression of the word table in *text*, code left out."""
    return [match[0] for match in _WORDS.finditer(_words_of(text))]


def _words_of(text: str) -> str:
    return plain(" ".join(_COMMENT.sub("", _FENCE.sub("", text)).split()))


def messages(file: Path) -> list[tuple[int, str]]:
    """Texts of a module that a person may read, with their lines: no docstrings, no single words; a value is ``…``."""
    tree = ast.parse(file.read_text())
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inner |= {id(part) for part in node.values}
            parts = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            texts.append((node.lineno, "".join(parts)))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            texts.append((node.lineno, node.value))
    return [(line, text) for line, text in texts if " " in text.strip()]


def remarks(file: Path) -> list[tuple[int, str]]:
    """Docstrings and comments of a module, with their lines; comments on consecutive lines are one text."""
    text = file.read_text()
    texts = [
        (node.lineno, node.value.value)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    comments = (
        (token.start[0], token.string.lstrip("# "))
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    )
    return texts + _joined(comments)


def _joined(lines: Iterable[tuple[int, str]]) -> list[tuple[int, str]]:
    """The texts of *lines*, of which consecutive ones are one text; with their first line."""
    texts: list[tuple[int, str]] = []
    last = 0
    for number, words in lines:
        if texts and number == last + 1:
            first, before = texts.pop()
            texts.append((first, f"{before} {words}"))
        else:
            texts.append((number, words))
        last = number
    return texts


def bindings(source: str) -> Iterator[tuple[str, int]]:
    """The names that functions bind, each with its line. Names of functions, classes and attributes are not meant."""
    for function in ast.walk(ast.parse(source)):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            for node in ast.walk(function):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                    yield node.id, node.lineno
                elif isinstance(node, ast.arg):
                    yield node.arg, node.lineno


def pages() -> list[Path]:
    """Every page that a person reads."""
    return [
        *sorted(ROOT.glob("*.md")),
        *sorted((ROOT / "docs").rglob("*.md")),
        *sorted((ROOT / "bench/results").glob("*.md")),
    ]


def main() -> None:
    """Print a row for each page, and one for all of them; with names of pages, every hit and the longest sentences."""
    rows = [(str(page.relative_to(ROOT)), page.read_text()) for page in pages()]
    if sys.argv[1:]:
        for name, text in rows:
            if name in sys.argv[1:]:
                print(name, hits(text))
                for sentence in sentences(text):
                    if word_count(sentence) > LONGEST or hits(sentence):
                        print(f"  {word_count(sentence)} {sentence}")
    everything = sorted(length for _, text in rows for length in lengths(text))
    table = [(name, lengths(text), len(hits(text))) for name, text in rows]
    table.append(("all", everything, sum(count for *_, count in table)))
    for file in sorted([*(ROOT / "src").rglob("*.py"), *(ROOT / "distributions/wsgi-lanes/src").rglob("*.py")]):
        table += [
            (f"{file.relative_to(ROOT)}:{line}", lengths(text), len(hits(text)))
            for line, text in messages(file)
            if hits(text) and text not in MATCHED
        ]
        table += [
            (f"{file.relative_to(ROOT)}:{line} remark", lengths(text), len(unusual_words(text)))
            for line, text in remarks(file)
            if unusual_words(text)
        ]
        table += [
            (f"{file.relative_to(ROOT)}:{line} {name}", [], 1)
            for name, line in bindings(file.read_text())
            if name in VAGUE
        ]
    print(f"{'page':60} sentences  median  90 %  words")
    for name, measured, count in table:
        print(f"{name:60} {len(measured):9} {quantile(measured, 0.5):7} {quantile(measured, 0.9):5} {count:6}")


if __name__ == "__main__":
    main()
