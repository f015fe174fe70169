"""``stead release``: give back all that a consumer holds."""

from typing import Annotated, Any
from urllib.parse import quote

import typer

from stead.cli.client import connect
from stead.cli.options import options
from stead.cli.output import print_json, say
from stead.domain.printable import printable

app = typer.Typer(add_completion=False)


@app.command()
def release(
    consumer: Annotated[str, typer.Argument(help="The consumer's UUID.", show_default=False)],
) -> None:
    """Release all allocations of a consumer."""
    path = f"/allocations/{quote(consumer, safe='')}"
    with connect() as api:
        held = api.get(path)["allocations"]
        api.delete(path)
    if options().json:
        print_json({"consumer": consumer, "released": held})
    else:
        say(f"released {printable(consumer)}: {describe(held)}")


def describe(allocations: dict[str, Any]) -> str:
    """The amounts of all providers together, ``4 VCPU, 8192 MEMORY_MB``."""
    amounts: dict[str, int] = {}
    for allocation in allocations.values():
        for name, amount in allocation["resources"].items():
            amounts[name] = amounts.get(name, 0) + amount
    return ", ".join(f"{amount} {printable(name)}" for name, amount in sorted(amounts.items()))
