"""``stead plan``: plans to drain hosts or to make room for a request, and carries the plan out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlencode

import typer

from stead.cli.arguments import options
from stead.cli.candidates import Flavor, Query, with_flavor
from stead.cli.consumers import fetch_places
from stead.cli.errors import NO, Negative
from stead.cli.server import connect, summary
from stead.cli.terminal import line_width, page_lines, print_json, progress, say, wrapped
from stead.cli.text import Text
from stead.cli.tree import find, require_named
from stead.cli.what_if import Order, SameAggregates, SameTraits, ask_what_if, draw_plan
from stead.client.errors import Refused
from stead.client.what_if import Drain
from stead.printing import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead import Advice, Improvement, Move, Place, Site, WhatIf
    from stead.cli.forest import Provider

app = typer.Typer(add_completion=False, no_args_is_help=True)


@app.callback()
def plan() -> None:
    """Plan to drain hosts or to make room, and carry it out."""


@app.command()
def drain(
    hosts: Annotated[
        list[str], typer.Argument(metavar="HOST", help="UUIDs or names of the hosts.", show_default=False)
    ],
    execute: Annotated[
        bool, typer.Option("--execute", help="Disable the hosts, and move the allocations in the order of the plan.")
    ] = False,
    partial: Annotated[
        bool, typer.Option("--partial", help="With --execute: also if some consumers have no place. They stay.")
    ] = False,
    reason: Annotated[
        str, typer.Option(help="With --execute: reason why the hosts are disabled, for the next operator.")
    ] = "drained",
    same_traits: SameTraits = False,
    same_aggregates: SameAggregates = False,
    order: Order = None,
) -> None:
    """List where the consumers of hosts would move, in an order in which each move is valid.

    Only allocations move. The scheduler that owns the consumers must move the workloads themselves. With `--execute`,
    the command stops at the first move that is not valid any more, and the hosts stay disabled. Run it again for a new
    plan. The exit code is 1 if consumers have no place or remain.
    """
    with connect() as site:
        roots = _roots(site, hosts)
        drains = [Drain(root.uuid, same_traits, same_aggregates, order) for root in roots]
        planned = ask_what_if(site, drains)
        if not execute or (planned.without_place and not partial):
            _report(site, planned)
            if execute:
                raise Negative(f"nothing was moved: {_stuck(planned)} no place; --partial moves the others")
            if planned.without_place:
                raise typer.Exit(NO)
            return
        disabled = [root for root in roots if root.disabled is None]
        # Before the moves, so that no other client claims room on a host that is being emptied.
        for root in disabled:
            site.disable(root.uuid, reason)
        planned = ask_what_if(site, drains)  # without what was claimed before the hosts were disabled
        made = _make(site, planned.moves)
        remaining = ask_what_if(site, drains)
        _report_made(site, planned, made, remaining, disabled)


@app.command()
def room(
    query: Query = None,
    flavor: Flavor = None,
    times: Annotated[
        int, typer.Option(min=1, max=1000, metavar="COUNT", help="How many times the request must fit.")
    ] = 1,
    execute: Annotated[bool, typer.Option("--execute", help="Move the allocations in the order of the plan.")] = False,
    same_traits: SameTraits = False,
    same_aggregates: SameAggregates = False,
    order: Order = None,
) -> None:
    """List which consumers to move, and where to, so that a request fits.

    The plan has as few moves as the search found. Only allocations move. The scheduler that owns the consumers must
    move the workloads themselves. With `--execute`, the command stops at the first move that is not valid any more; run
    it again for a new plan. The exit code is 1 if there is no plan, or if the plan was not carried out.
    """
    requested = with_flavor(query, flavor)
    if order is not None:
        requested = f"{requested}&{urlencode({'order_by': order})}"
    with connect() as site:
        advice = site.advice(requested, times, same_traits=same_traits, same_aggregates=same_aggregates)
        if not advice.is_found:
            require_named(site, requested)
        if not (execute and advice.is_found):
            _report_advice(site, advice)
            if not advice.is_found:
                raise typer.Exit(NO)
            return
        made = _make(site, advice.moves)
        _report_advice(site, advice, made=made.number, stopped=_stopped(made))
        _require_all(advice.moves, made)


@app.command()
def improve(
    number: Annotated[
        int, typer.Option("--moves", min=1, max=1000, metavar="COUNT", help="Maximum number of moves.")
    ] = 10,
    execute: Annotated[bool, typer.Option("--execute", help="Move the allocations in the order of the plan.")] = False,
    same_traits: SameTraits = False,
    same_aggregates: SameAggregates = False,
) -> None:
    """List which consumers to move, and where to, so that the most room is left for the site's mix of flavors.

    Each move is the one after those before it that raises the value of the site most; `order_by=headroom` has the same
    value. Only allocations move. The scheduler that owns the consumers must move the workloads themselves. With
    `--execute`, the command stops at the first move that is not valid any more; run it again for a new plan. The exit
    code is 1 if the site has no flavors, or if the plan was not carried out.
    """
    with connect() as site:
        improvement = site.improvement(number, same_traits=same_traits, same_aggregates=same_aggregates)
        if not improvement.has_mix:
            raise Negative("the site has no flavors; `stead flavor set` stores one")
        made = _make(site, improvement.moves) if execute else None
        if options().json:
            more = {} if made is None else {"made": made.number, "stopped": _stopped(made)}
            print_json({**improvement.document, **more})
        else:
            places = _places(site, improvement.moves)
            page_lines(draw_improvement(improvement, places, line_width()))
        if made is not None:
            _require_all(improvement.moves, made)


@dataclass(frozen=True, slots=True)
class _Made:
    """The number of moves that were made, and the one at which they stopped, with the reason."""

    number: int
    stopped_at: Move | None = None
    reason: str = ""


def _roots(site: Site, hosts: Sequence[str]) -> list[Provider]:
    """The roots of the trees of *hosts*, each once."""
    roots = {}
    for host in hosts:
        located = find(site, host)
        root = (*located.above, located.provider)[0]
        roots[root.uuid] = root
    return list(roots.values())


def _make(site: Site, moves: Sequence[Move]) -> _Made:
    with progress("moving consumers") as advance:
        for number, move in enumerate(moves):
            try:
                site.move(move)
            except Refused as error:
                return _Made(number, move, summary(error))
            advance(number + 1, len(moves))
    return _Made(len(moves))


def _report(site: Site, planned: WhatIf, **more: Any) -> None:
    """Print the plan; *more* are further members of its JSON."""
    if options().json:
        print_json({**planned.document, **more})
        return
    providers = [{*move.before, *move.allocations} for move in planned.moves]
    providers += [set(stuck.allocations) for stuck in planned.without_place]
    places = fetch_places(site, set[str]().union(*providers))
    page_lines(draw_plan(planned.moves, planned.without_place, places, line_width()))


def _report_advice(site: Site, advice: Advice, **more: Any) -> None:
    """Print the advice; *more* are further members of its JSON."""
    if options().json:
        print_json({**advice.document, **more})
        return
    page_lines(draw_advice(advice, _places(site, advice.moves), line_width()))


def _places(site: Site, moves: Sequence[Move]) -> Mapping[str, Place]:
    return fetch_places(site, {provider for move in moves for provider in {*move.before, *move.allocations}})


def _report_made(site: Site, planned: WhatIf, made: _Made, remaining: WhatIf, disabled: Sequence[Provider]) -> None:
    _report(site, planned, made=made.number, stopped=_stopped(made), disabled=[root.uuid for root in disabled])
    if not options().json and disabled:
        say(f"disabled {', '.join(printable(root.name) for root in disabled)}")
    _require_all(planned.moves, made)
    number = len(remaining.moves) + len(remaining.without_place)
    if number:
        raise Negative(f"{number:,} consumer{' remains' if number == 1 else 's remain'}")


def _stopped(made: _Made) -> dict[str, Any] | None:
    if made.stopped_at is None:
        return None
    return {"move": made.number + 1, "consumer": made.stopped_at.consumer, "reason": made.reason}


def _require_all(moves: Sequence[Move], made: _Made) -> None:
    """Say how many moves were made.

    Raises:
        Negative: not all.
    """
    if not options().json:
        say(f"made {made.number:,} of {len(moves):,} moves")
    if made.stopped_at is not None:
        consumer = made.stopped_at.consumer
        raise Negative(one_line(f"stopped at move {made.number + 1}, of consumer {consumer}: {made.reason}"))


def _stuck(planned: WhatIf) -> str:
    number = len(planned.without_place)
    return f"{number:,} consumer{' has' if number == 1 else 's have'}"


# Drawing advice: what a plan gains, and its moves.


def draw_advice(advice: Advice, places: Mapping[str, Place], width: int) -> Iterator[Text]:
    """The lines of *advice*, none longer than *width* cells.

    Args:
        places: names of providers, by UUID.
    """
    yield from wrapped(Text(sentence(advice)), width)
    if advice.moves:
        yield Text("")
        yield from draw_plan(advice.moves, (), places, width)


def sentence(advice: Advice) -> str:
    """What the moves gain, and whether fewer moves could be enough."""
    now, times = f"Fits {_times(advice.fits_before)} now", _times(advice.document["make_room_for"])
    least, most = advice.fewest_moves
    if advice.is_impossible:
        return f"{now}. No moves make it fit {times}."
    if most is None:
        return f"{now}. No plan was found with which it fits {times}, but one may exist."
    if not most:
        return f"{now}, without any move."
    moves = f"{most:,} move{'' if most == 1 else 's'}"
    proof = "No plan has fewer." if least == most else f"Every plan has at least {least:,}."
    return f"{now}, and {_times(advice.fits_after or 0)} after {moves}. {proof}"


def draw_improvement(improvement: Improvement, places: Mapping[str, Place], width: int) -> Iterator[Text]:
    """The lines of an improvement, none longer than *width* cells.

    Args:
        places: names of providers, by UUID.
    """
    before, after = improvement.value_before, improvement.value_after
    number = len(improvement.moves)
    text = f"Value for the mix {before:,.4g} now. No move raises it."
    if number:
        percent = f" ({100 * (after / before - 1):+.2f} %)" if before else ""
        text = (
            f"Value for the mix {before:,.6g} now, and {after:,.6g}{percent} after {number:,} move{'s'[: number > 1]}."
        )
    if not improvement.is_complete:
        text += " The server did not consider all consumers."
    yield from wrapped(Text(text), width)
    if number:
        yield Text("")
        yield from draw_plan(improvement.moves, (), places, width)


def _times(number: int) -> str:
    return f"{number:,} time{'' if number == 1 else 's'}"
