"""``stead candidates`` and ``stead explain``: where a request fits, and why it fits there or nowhere.

Candidates are tables: the amounts of each provider and group, and what stays free::

    #  provider               group  takes            then          stays free
    ────────────────────────────────────────────────────────────────────────────
    1  host-1
         host-1-numa0         _A         4 PCPU       ██▓▓░░░           8 of 16
                              _A     8 GiB MEMORY_MB  ▓▓░░░░░  56 GiB of 64 GiB
         host-1-numa0-nic     _N         1 VF         ▓▓▓▓▓▓▓            0 of 1

A provider stands below the root of its tree. An explanation is a funnel for each group and for the trees, providers
that almost fit, and what would help.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path  # noqa: TC003  # Typer reads the annotations
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl, unquote_plus, urlencode

import typer

from stead.cli.arguments import options, read_lines
from stead.cli.errors import NO, CommandError, Negative
from stead.cli.server import connect
from stead.cli.terminal import (
    EMPTY,
    FULL,
    GAP,
    Columns,
    amount_text,
    bar,
    beside,
    colour,
    lay_out,
    line_width,
    name_width,
    padded,
    print_json,
    say,
    shorten,
    show_lines,
    widest,
    wrapped,
)
from stead.cli.text import Text
from stead.cli.tree import require_named
from stead.client.calls import query_of
from stead.client.candidate import Explanation, constraint_words, count_words, group_words, relaxation_words
from stead.client.errors import Refused
from stead.printing import in_class_order, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import stead
    from stead import Site
    from stead.client.candidate import Summary
    from stead.client.provider import Amounts

Json = dict[str, Any]

candidates_app = typer.Typer(add_completion=False)
explain_app = typer.Typer(add_completion=False)

QUERY_HELP = (
    "The query string of GET /allocation_candidates, in quotes: "
    "'resources=VCPU:2,MEMORY_MB:1024&required=HW_CPU_X86_AVX2'."
)
Query = Annotated[str | None, typer.Argument(help=QUERY_HELP, show_default=False)]
Flavor = Annotated[
    str | None, typer.Option(help="Name of a flavor, whose query is requested. A QUERY beside it can only restrict it.")
]

NOTHING_FITS = "nothing fits; `stead explain` with the same query says why"
"""The error of every command for whose request there is no candidate; the exit code is 1."""

UNSUFFIXED = ""

_DEFAULT_LIMIT = 20


@candidates_app.command()
def candidates(
    query: Query = None,
    flavor: Flavor = None,
    limit: Annotated[
        int, typer.Option(min=1, help="Maximum number of candidates. A limit in the query overrides it.")
    ] = _DEFAULT_LIMIT,
) -> None:
    """List allocation candidates, and what stays free after a claim."""
    requested = with_flavor(query, flavor)
    question = query_of(requested, limit)
    with connect() as site:
        shown = ask(site, question)
        if not shown:
            require_named(site, question)
        names = names_of(site, shown)
    if options().json:
        print_json({"candidates": [candidate_as_json(candidate, names) for candidate in shown]})
    if not shown:
        raise Negative(NOTHING_FITS)
    if options().json:
        return
    show_lines(draw_candidates(shown, names, line_width()))
    if len(shown) == limit and question != query_of(requested):
        say(f"The first {limit} are shown; --limit shows more.")


@explain_app.command()
def explain(
    query: Query = None,
    flavor: Flavor = None,
    instance: Annotated[
        str | None,
        typer.Option(
            metavar="UUID|REQUEST-ID",
            help="Explain the request of nova for this instance, or with this request ID, which the log of Stead has.",
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The log of the server, for --instance; - reads standard input."),
    ] = None,
) -> None:
    """Explain what each constraint of a request excludes, which providers almost fit, and what would help.

    The explanation is of now: if the site has changed since the request in the log, it may differ.
    """
    if (instance is None) != (log is None):
        raise CommandError("--instance and --log belong together: --instance UUID --log FILE")
    if instance is None or log is None:
        requested = with_flavor(query, flavor)
    else:
        if query is not None or flavor is not None:
            raise CommandError("--instance finds the query; give no other")
        requested = logged_query(instance, read_lines(log))
        if not options().json:
            say(f"{instance} requested {printable(unquote_plus(requested))}")
            print()
    with connect() as site:
        explanation = site.explain(requested)
    if options().json:
        print_json(explanation.document)
    else:
        show_lines(draw_explanation(explanation.document, line_width()))
    if not explanation.candidates:
        raise typer.Exit(NO)


_REQUEST_ID = re.compile(r"req-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_QUESTION = re.compile(r"/allocation_candidates\?([^\s\"]+)")


def logged_query(called: str, lines: Iterable[str]) -> str:
    """The last candidate query of an instance, or with a request ID, in the *lines* of a server's log, text or JSON.

    The line of a query does not name the instance. A claim does, and has the same global request ID, which nova sends.

    Raises:
        Negative: there is none.
    """
    queries: dict[str, str] = {}
    requests = {called}
    for line in lines:
        question = _QUESTION.search(line)
        if question is not None:
            queries.update(dict.fromkeys(_REQUEST_ID.findall(line), question[1]))
        elif called in line:
            requests.update(_REQUEST_ID.findall(line))
    for request, query in reversed(queries.items()):
        if request in requests:
            return query
    raise Negative(
        f"the log has no candidate query of {called}"
        + ("" if called.startswith("req-") else "; `openstack server event list` shows the request IDs of an instance")
    )


def with_flavor(query: str | None, flavor: str | None) -> str:
    """The query of a command that takes a query, the name of a flavor, or both.

    Raises:
        CommandError: it has neither.
    """
    if flavor is None:
        if query is None:
            raise CommandError("give a QUERY, --flavor, or both")
        if query and "=" not in query:
            raise CommandError(
                f"{query!r} is not a query such as resources=VCPU:2. A flavor is named by --flavor {query}"
            )
        return query
    named = urlencode({"flavor": flavor})
    return f"{named}&{query}" if query else named


def expanded(site: Site, query: str) -> str:
    """*query* with that of the flavor in its place, to interpret the answer. Unchanged if the flavor cannot be read."""
    name = next((value for key, value in parse_qsl(query) if key == "flavor"), None)
    if name is None:
        return query
    try:
        stored = site.flavor(name).query
    except Refused:
        return query
    others = [pair for pair in parse_qsl(query) if pair[0] != "flavor"]
    return f"{stored}&{urlencode(others)}" if others else stored


# Candidates, split into rows for output.


@dataclass(frozen=True, slots=True)
class Row:
    """The part of one provider in one request group: *amount* of *resource_class*; empty for a group without resources.

    *used* is the usage before, *claimed* the amount of the whole candidate of this class here, for all its groups. The
    *capacity* is None if it could not be read; *used* is then meaningless.
    """

    provider: str
    root: str
    group: str
    resource_class: str = ""
    amount: int = 0
    capacity: int | None = 0
    used: int = 0
    claimed: int = 0

    @property
    def free_after(self) -> int | None:
        """The free amount after the candidate is claimed."""
        return None if self.capacity is None else self.capacity - self.used - self.claimed


@dataclass(frozen=True, slots=True)
class Candidate:
    """One way to satisfy the request, with its rows; *allocation_request* is that of the service."""

    allocation_request: Json
    rows: tuple[Row, ...]

    @property
    def roots(self) -> list[str]:
        """The roots of the trees from which the candidate takes resources."""
        return list(dict.fromkeys(row.root for row in self.rows))


def ask(site: Site, query: str) -> list[Candidate]:
    """The candidates for *query*, in the order of the answer; empty if nothing fits."""
    candidates = site.candidates(query)
    return candidates_of(candidates, expanded(site, query))


def candidates_of(candidates: stead.Candidates, query: str) -> list[Candidate]:
    """The *candidates* of *query*, in which no flavor stands any more."""
    groups = amounts_by_group(query)
    return [in_rows(each, candidates.summaries, groups) for each in candidates]


def in_rows(
    candidate: stead.Candidate,
    summaries: Mapping[str, Summary],
    groups: Mapping[str, dict[str, int]],
    replaced: Mapping[str, Amounts] = MappingProxyType({}),
) -> Candidate:
    """*candidate* with its rows.

    The amounts *replaced*, which the consumer has, count as free in the rows, since a claim releases them. The service
    does not know the consumer, so it counted them as used in its search.
    """
    return Candidate(candidate.record(), tuple(rows_of(candidate, summaries, groups, replaced)))


def amounts_by_group(query: str) -> dict[str, dict[str, int]]:
    """The amounts by class of each suffixed group of a *query* that the service has accepted."""
    groups: dict[str, dict[str, int]] = {}
    for key, value in parse_qsl(query):
        suffix = key.removeprefix("resources")
        if suffix and suffix != key:
            amounts = (element.partition(":") for element in value.split(","))
            groups[suffix] = {name: int(amount) for name, _, amount in amounts}
    return groups


def rows_of(
    candidate: stead.Candidate,
    summaries: Mapping[str, Summary],
    groups: Mapping[str, dict[str, int]],
    replaced: Mapping[str, Amounts] = MappingProxyType({}),
) -> Iterator[Row]:
    """The rows of one candidate, provider by provider; groups are in the order of the mappings.

    An allocation is the sum over groups. A suffixed group takes its amounts from its one provider, and the unsuffixed
    group takes the rest.
    """
    serving: dict[str, list[str]] = {uuid: [] for uuid in candidate.allocations}
    for group, uuids in candidate.mappings.items():
        for uuid in uuids:
            serving.setdefault(uuid, []).append(group)
    for uuid, served in serving.items():
        summary = summaries[uuid]
        claimed = candidate.allocations.get(uuid, {})
        rest = dict(claimed)
        for group in sorted(served, key=lambda suffix: suffix == UNSUFFIXED):
            taken = rest if group == UNSUFFIXED else groups.get(group, {})
            if not taken:
                yield Row(uuid, summary.root, group)
            for name, amount in in_class_order(taken).items():
                room = summary.rooms.get(name)
                used = (0 if room is None else room.used) - replaced.get(uuid, {}).get(name, 0)
                capacity = None if room is None else room.capacity
                yield Row(uuid, summary.root, group, name, amount, capacity, used, claimed.get(name, 0))
            rest = {name: remaining for name in rest if (remaining := rest[name] - taken.get(name, 0)) > 0}


def names_of(site: Site, candidates: Sequence[Candidate]) -> dict[str, str]:
    """The names of the providers of *candidates* and of their roots, by UUID; empty if they cannot be read.

    Names are optional: a written claim is reported even without them.
    """
    try:
        return site.names({uuid for each in candidates for row in each.rows for uuid in (row.root, row.provider)})
    except Refused:
        return {}


# Drawing candidates.


_UNKNOWN = "–"
_BELOW = 2  # indentation of a provider below the root of its tree
_GROUP, _TAKES, _THEN, _FREE = "group", "takes", "then", "stays free"


@dataclass(frozen=True, slots=True)
class Layout:
    """Widths in cells, equal for all lines; *group* is 0 if only the unsuffixed group takes resources."""

    columns: Columns
    lead: int
    group: int
    amount: int
    name: int
    free: int


def draw_candidates(candidates: list[Candidate], names: dict[str, str], width: int) -> Iterator[Text]:
    """The lines of all candidates, one section each, numbered from 1; no line is longer than *width* cells."""
    yield from _draw(candidates, names, width, lead=len(str(len(candidates))) + GAP)


def draw_claim(candidate: Candidate, names: dict[str, str], width: int) -> Iterator[Text]:
    """The lines of the claimed candidate."""
    yield from _draw([candidate], names, width, lead=0)


def _draw(candidates: list[Candidate], names: dict[str, str], width: int, *, lead: int) -> Iterator[Text]:
    layout = _lay_out(candidates, names, width, lead)
    yield from _header(layout)
    for place, candidate in enumerate(candidates, start=1):
        if place > 1:
            yield Text()
        first = Text(str(place).rjust(lead - GAP) + " " * GAP, style="bold") if lead else Text()
        for provider, rows in _by_tree(candidate):
            indent = Text(" " * (layout.lead + (_BELOW if rows and provider != rows[0].root else 0)))
            tree_lines = first + indent[len(first.plain) :]
            yield from beside(
                tree_lines + _name(provider, names, layout, tree_lines), _details(rows, layout), layout.columns
            )
            first = Text()


def _by_tree(candidate: Candidate) -> Iterator[tuple[str, list[Row]]]:
    """The providers with their rows, grouped by tree, after the root; a root that gives nothing has no rows."""
    for root in candidate.roots:
        rows = [row for row in candidate.rows if row.root == root]
        given = [(provider, list(those)) for provider, those in groupby(rows, key=lambda row: row.provider)]
        yield from [tree for tree in given if tree[0] == root] or [(root, [])]
        yield from (tree for tree in given if tree[0] != root)


def _header(layout: Layout) -> Iterator[Text]:
    details = Text(_GROUP.ljust(layout.group + GAP) if layout.group else "")
    details.append(_TAKES.ljust(layout.amount + 1 + layout.name + GAP))
    if layout.columns.bar:
        details.append(_THEN.ljust(layout.columns.bar + GAP))
    details.append(_FREE.rjust(layout.free))
    title = Text(("#".rjust(layout.lead - GAP) + " " * GAP if layout.lead else "") + "provider")
    lines = list(beside(title, [details], layout.columns))
    for line in lines:
        line.stylize("bold")
        yield line
    yield Text("─" * max(line.cell_len for line in lines))


def _details(rows: Iterable[Row], layout: Layout) -> Iterator[Text]:
    for row in rows:
        line = Text()
        group, name = printable(row.group), printable(row.resource_class)
        for long, most in ((group, layout.group), (name, layout.name)):
            if len(long) > most:
                yield Text(shorten(long, layout.columns.right))
        if layout.group:
            line += padded(Text(group if len(group) <= layout.group else "", style="cyan"), layout.group + GAP)
        if not row.resource_class:
            yield line + Text(_UNKNOWN.rjust(layout.amount), style="dim")
            continue
        line.append(f"{_taken(row).rjust(layout.amount)} ")
        line += padded(Text(name if len(name) <= layout.name else ""), layout.name + GAP)
        if layout.columns.bar:
            line += padded(_bar(row, layout.columns.bar), layout.columns.bar + GAP)
        free = _free(row)
        yield line + Text(" " * (layout.free - free.cell_len)) + free


def _bar(row: Row, width: int) -> Text:
    return Text() if row.capacity is None else bar(row.used, row.capacity, claimed=row.claimed, width=width)


def _taken(row: Row) -> str:
    return amount_text(row.resource_class, row.amount)


def _free(row: Row) -> Text:
    """The free amount and the capacity."""
    if row.capacity is None or row.free_after is None:
        return Text(_UNKNOWN, style="dim")
    free = Text(amount_text(row.resource_class, row.free_after), style=colour(row.used + row.claimed, row.capacity))
    free.append(f" of {amount_text(row.resource_class, row.capacity)}", style="dim")
    return free


def _name(uuid: str, names: dict[str, str], layout: Layout, tree_lines: Text) -> Text:
    """The name, shortened only if it does not fit on a line of its own."""
    return Text(shorten(printable(names.get(uuid, uuid)), max(layout.columns.width - tree_lines.cell_len, 1)))


def _lay_out(candidates: list[Candidate], names: dict[str, str], width: int, lead: int) -> Layout:
    rows = [row for candidate in candidates for row in candidate.rows]
    giving = [row for row in rows if row.resource_class]
    titles = [
        lead
        + (_BELOW if row.provider != row.root else 0)
        + Text(printable(names.get(row.provider, row.provider))).cell_len
        for row in rows
    ]
    amount = widest(_taken(row) for row in giving)
    free = max(widest(_free(row).plain for row in giving), len(_FREE))
    room = width - amount - 1 - GAP - free
    groups = {printable(row.group) for row in rows}
    group = max(name_width(groups, room - GAP, width // 2), len(_GROUP)) if any(groups) else 0
    classes = {printable(row.resource_class) for row in giving}
    name = max(name_width(classes, room - (group + GAP if group else 0), width), len(_TAKES) - amount - 1)
    details = (group + GAP if group else 0) + amount + 1 + name + GAP + free
    return Layout(lay_out(titles, details, width), lead, group, amount, name, free)


def candidate_as_json(candidate: Candidate, names: dict[str, str]) -> dict[str, Any]:
    """The contents of the table, with the service's own allocation request."""
    return {
        "providers": [
            {
                "uuid": row.provider,
                "name": names.get(row.provider),
                "root_uuid": row.root,
                "root_name": names.get(row.root),
                "group": row.group,
                "resources": _amounts_as_json(row) if row.resource_class else {},
            }
            for row in candidate.rows
        ],
        "allocation_request": candidate.allocation_request,
    }


def _amounts_as_json(row: Row) -> dict[str, dict[str, int | None]]:
    return {
        row.resource_class: {
            "amount": row.amount,
            "capacity": row.capacity,
            "used_before": None if row.capacity is None else row.used,
            "free_after": row.free_after,
        }
    }


# Drawing explanations.


_MOST_FUNNEL_BAR = 20


def draw_explanation(explanation: Json, width: int) -> Iterator[Text]:
    """The lines for a body of ``GET /allocation_candidates/explain``, none longer than *width* cells."""
    for line in _lines(explanation, width):
        yield from wrapped(line, width, indent=2 * GAP) if line else [line]


def _lines(explanation: Json, width: int) -> Iterator[Text]:
    yield Text(printable(Explanation(explanation).summary), style="bold")
    if not explanation["complete"]:
        yield Text("The service reached its work limit before everything was checked.", style="yellow")
    roots = explanation["roots"]
    if roots["steps"]:
        yield from _funnel("roots", roots["in_play"], roots["steps"], width)
    for group in explanation["groups"]:
        choices = group["choices"]
        if len(choices) > 1 and (table := _side_by_side(choices, width)):
            yield from table
        else:
            for choice in choices:
                title = printable(group_words(group["suffix"], choice["resource_class"]))
                yield from _funnel(f"providers for {title}", choice["in_play"], choice["steps"], width)
        yield from (Text(f"  {line}", style="dim") for choice in choices for line in _near(choice["nearest"]))
    trees = explanation["trees"]
    yield from _funnel("trees", trees["in_play"], trees["steps"], width)
    if trees["undecided"]:
        yield Text(f"  {trees['undecided']:,} not decided", style="yellow")
    if not explanation["candidates"]:
        yield from _help(explanation["relaxations"], width)


def _funnel(title: str, in_play: int, steps: Sequence[Json], width: int) -> Iterator[Text]:
    """The number of providers at the start, and how many each step keeps and removes."""
    yield Text()
    yield Text(title, style="bold")
    rows = [("all", in_play, 0), *((_constraint(step), step["left"], step["removed"]) for step in steps)]
    count = widest(f"{remaining:,}" for _, remaining, _ in rows)
    gone = widest(f"−{removed:,}" for *_, removed in rows if removed)
    columns = lay_out(
        (GAP + Text(words).cell_len for words, *_ in rows),
        count + (GAP + gone if gone else 0),
        width,
        most_bar=_MOST_FUNNEL_BAR,
    )
    for words, remaining, removed in rows:
        detail = Text(f"{remaining:,}".rjust(count))
        if columns.bar:
            detail += Text(" " * GAP) + _funnel_bar(remaining, in_play, columns.bar)
        if removed:
            detail.append(" " * GAP + f"−{removed:,}".rjust(gone), style="red")
        yield from _row_of_funnel(words, [detail], columns)


_OF_A_CLASS = {
    "inventory": "have the class",
    "units": "allow the amount at once",
    "room": "have the amount free",
    "part": "have a part of the amount free",
}


def _side_by_side(choices: Sequence[Json], width: int) -> list[Text] | None:
    """The funnels of the classes of one group as the columns of one table; None if they do not fit on the screen."""
    left: dict[str, dict[int, int]] = {"all": {place: choice["in_play"] for place, choice in enumerate(choices)}}
    for place, choice in enumerate(choices):
        for step in choice["steps"]:
            words = _OF_A_CLASS.get(step.get("check", "")) or _constraint(step)
            left.setdefault(words, {})[place] = step["left"]
    names = [printable(choice["resource_class"]) for choice in choices]
    title = "providers for"
    cells = [
        max(widest([name]), *(len(f"{row[place]:,}") for row in left.values() if place in row))
        for place, name in enumerate(names)
    ]
    longest = max(widest([title]), GAP + widest(left))
    lead = min(longest, width - sum(GAP + cell for cell in cells))
    if lead < min(longest, GAP + widest(_OF_A_CLASS.values())):
        return None
    lines = [Text(), padded(Text(title, style="bold"), lead)]
    for name, cell in zip(names, cells, strict=True):
        lines[1].append(" " * GAP + " " * (cell - widest([name])) + name, style="bold")
    for words, row in left.items():
        *above, last = wrapped(Text(" " * GAP + words), lead, indent=2 * GAP)
        lines += above
        line = padded(last, lead)
        for place, cell in enumerate(cells):
            number_left = row.get(place)
            shown = "" if number_left is None else f"{number_left:,}"
            line.append(" " * GAP + shown.rjust(cell), style="red" if number_left == 0 else "")
        lines.append(line)
    return lines


def _funnel_bar(remaining: int, in_play: int, width: int) -> Text:
    cells = -(-remaining * width // in_play) if in_play else 0
    return Text.assemble((FULL * cells, "green" if remaining else "red"), (EMPTY * (width - cells), "bright_black"))


def _row_of_funnel(title: str, details: list[Text], columns: Columns) -> Iterator[Text]:
    """One indented line; a title that does not fit beside its details is wrapped above them."""
    return beside(Text(" " * GAP + title), details, columns, indent=2 * GAP)


def _constraint(constraint: Json) -> str:
    return printable(constraint_words(constraint))


def _near(misses: Sequence[Json]) -> Iterator[str]:
    """Providers that fail exactly one constraint; for capacity, with the missing amount."""
    for miss in misses:
        names = ", ".join(printable(example["name"]) for example in miss["examples"])
        if miss["lacking"]:
            name = printable(miss["value"].partition(":")[0])
            lacking = ", ".join(f"{_who(lack, 'lack')} {lack['amount']:,} {name}" for lack in miss["lacking"])
            yield f"near: {lacking} ({names})"
        else:
            failing = "are disabled only" if miss["parameter"] == "disabled" else f"fail only: {_constraint(miss)}"
            yield f"near: {miss['providers']:,} {failing} ({names})"


def _who(counted: Mapping[str, Any], verb: str) -> str:
    number = counted["providers"]
    return f"{number:,} {verb}{'s' if number == 1 else ''}"


def _help(relaxations: Sequence[Json], width: int) -> Iterator[Text]:
    yield Text()
    if not relaxations:
        yield Text("No single change of the request would help.", style="bold")
        return
    yield Text("Changes that would help", style="bold")
    rows = [(printable(relaxation_words(relaxation)), count_words(relaxation)) for relaxation in relaxations]
    columns = lay_out((GAP + Text(change).cell_len for change, _ in rows), widest(count for _, count in rows), width)
    for change, count in rows:
        yield from _row_of_funnel(change, [Text(count)], columns)
