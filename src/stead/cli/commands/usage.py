"""``stead usage``: sums over consumers."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from stead.class_order import in_class_order
from stead.cli.arguments import options
from stead.cli.commands.consumers import Project, Type, User  # noqa: TC001  # Typer reads them
from stead.cli.fetching.consumers import ConsumerFilter, add_up, fetch_consumers
from stead.cli.server import connect
from stead.cli.terminal import line_width, page_lines, print_json, progress

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead.cli.fetching.consumers import Amounts, Consumer

app = typer.Typer(add_completion=False)


class By(StrEnum):
    """The kind of the sums."""

    PROJECT = "project"
    USER = "user"
    TYPE = "type"


@app.command()
def usage(
    project: Project = None,
    user: User = None,
    consumer_type: Type = None,
    by: Annotated[
        By, typer.Option(metavar="project|user|type", help="Sums per project, user or type.", show_default=True)
    ] = By.PROJECT,
) -> None:
    """Show the number of consumers and the sums of their allocations, per project, user or type."""
    with connect() as api, progress("reading consumers") as advance:
        sums = sums_by(by, fetch_consumers(api, ConsumerFilter(project, user, consumer_type), advance))
    if options().json:
        usages = [
            {by.value: key, "consumers": count, "resources": in_class_order(amounts)}
            for key, (count, amounts) in sorted(sums.items())
        ]
        print_json({"usages": usages, "totals": in_class_order(add_up(amounts for _, amounts in sums.values()))})
        return
    from stead.cli.drawing.consumers import draw_sums

    page_lines(draw_sums(by.value, sums, line_width()))


def sums_by(by: By, consumers: Iterable[Consumer]) -> dict[str, tuple[int, Amounts]]:
    """The number of consumers and the amounts per class, by project, user or type."""
    groups: dict[str, list[Amounts]] = {}
    for consumer in consumers:
        groups.setdefault(getattr(consumer, by.value), []).append(consumer.amounts)
    return {key: (len(several), add_up(several)) for key, several in groups.items()}
