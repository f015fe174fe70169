"""``stead provider``: shows one provider on one page, and changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli import arguments
from stead.cli.arguments import options
from stead.cli.errors import NO, CommandError, Negative
from stead.cli.fetching.providers import (
    delete_provider,
    fetch_allocations,
    fetch_provider,
    find_provider,
    set_disabled,
    write_providers,
)
from stead.cli.forest import as_json, walk
from stead.cli.server import connect
from stead.cli.terminal import line_width, page_lines, print_json, say
from stead.domain.names import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead import Site
    from stead.cli.fetching.providers import Located

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Show and change one provider.")

Name = Annotated[str, typer.Argument(metavar="PROVIDER", help="UUID or name of the provider.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")]
Inventory = Annotated[
    list[str] | None, typer.Option(metavar="INVENTORY", help=f"Set an inventory: {arguments.HELP}. Repeatable.")
]
Trait = Annotated[list[str] | None, typer.Option(help="Add a trait; repeatable. Custom traits are created.")]
Aggregate = Annotated[
    list[str] | None, typer.Option(metavar="UUID", help="Add the provider to an aggregate; repeatable.")
]
Below = Annotated[str | None, typer.Option(metavar="PARENT", help="UUID or name of the parent. Default: none, a root.")]


@app.command()
def show(name: Name) -> None:
    """Show one provider on one page: tree, state, inventories, traits, aggregates, consumers."""
    with connect() as api:
        located = fetch_provider(api, name)
        allocations = fetch_allocations(api, located.provider)
    if options().json:
        consumers = {uuid: {"resources": amounts} for uuid, amounts in sorted(allocations.items())}
        print_json({**as_json(located.provider), "path": located.path, "consumers": consumers})
        return
    from stead.cli.drawing.provider import draw_provider

    page_lines(draw_provider(located.provider, located.path, allocations, line_width()))


@app.command("set")
def set_(
    name: Name,
    rename: Annotated[str | None, typer.Option("--name", metavar="NAME", help="The new name.")] = None,
    inventory: Inventory = None,
    remove_inventory: Annotated[
        list[str] | None, typer.Option(metavar="CLASS", help="Remove the inventory of a class; repeatable.")
    ] = None,
    trait: Trait = None,
    remove_trait: Annotated[list[str] | None, typer.Option(help="Remove a trait; repeatable.")] = None,
    aggregate: Aggregate = None,
    remove_aggregate: Annotated[
        list[str] | None, typer.Option(metavar="UUID", help="Remove the provider from an aggregate; repeatable.")
    ] = None,
    allow_overcommit: Annotated[
        bool, typer.Option("--allow-overcommit", help="Also make a capacity smaller than what is allocated from it.")
    ] = False,
    dry_run: DryRun = False,
) -> None:
    """Change name, inventories, traits and aggregates of a provider, all at once. The rest stays."""
    with connect() as api:
        located = fetch_provider(api, name)
        provider = located.provider
        # With the generation that was read: if another client changed the provider, the server refuses these lists.
        record: dict[str, Any] = {"uuid": provider.uuid, "generation": provider.generation}
        if rename is not None:
            record["name"] = rename
        if inventory or remove_inventory:
            record["inventories"] = arguments.changed(provider.inventories, inventory or [], remove_inventory or [])
        if trait or remove_trait:
            record["traits"] = _changed("trait", provider.traits, trait, remove_trait)
        if aggregate or remove_aggregate:
            record["aggregates"] = _changed("aggregate", provider.aggregates, aggregate, remove_aggregate)
        if len(record) == 2:
            raise CommandError("nothing to change; see `stead provider set --help`")
        _write(api, [record], _names(located), dry_run=dry_run, allow_overcommit=allow_overcommit)


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the new provider.", show_default=False)],
    below: Below = None,
    uuid: Annotated[str | None, typer.Option(help="UUID of the provider. Default: a new one.")] = None,
    inventory: Inventory = None,
    trait: Trait = None,
    aggregate: Aggregate = None,
    dry_run: DryRun = False,
) -> None:
    """Create a provider with its inventories, traits and aggregates."""
    with connect() as api:
        for called in (name, uuid):
            if called is not None and find_provider(api, called) is not None:
                raise Negative(f"resource provider {called!r} exists")
        parent = None if below is None else fetch_provider(api, below).provider
        record: dict[str, Any] = {"name": name, "parent_provider_uuid": parent and parent.uuid}
        if uuid is not None:
            record["uuid"] = uuid
        record["inventories"] = arguments.changed({}, inventory or [], [])
        record |= {"traits": trait or [], "aggregates": aggregate or []}
        _write(api, [record], {parent.uuid: parent.name} if parent else {}, dry_run=dry_run)


@app.command()
def move(
    name: Name,
    below: Below = None,
    root: Annotated[bool, typer.Option("--root", help="Make the provider a root.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Move a provider, with all that is below it, below another provider, or make it a root."""
    if (below is None) != root:
        raise CommandError("give either --below PARENT or --root")
    with connect() as api:
        located = fetch_provider(api, name)
        parent = None if below is None else fetch_provider(api, below).provider
        names = _names(located) | ({parent.uuid: parent.name} if parent else {})
        _write(
            api,
            [{"uuid": located.provider.uuid, "parent_provider_uuid": parent and parent.uuid}],
            names,
            dry_run=dry_run,
        )


@app.command()
def delete(
    name: Name,
    recursive: Annotated[bool, typer.Option("--recursive", help="Also delete the providers below it.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a provider without allocations."""
    with connect() as api:
        provider = fetch_provider(api, name).provider
        if provider.children and not recursive:
            children = " ".join(child.name for child in provider.children)
            raise Negative(
                one_line(f"{provider.name} has providers below it: {children}. --recursive deletes them too")
            )
        doomed = list(walk([provider]))[::-1]  # children first
        in_use = [each.name for each in doomed if any(each.usages.values())]
        if in_use:
            raise Negative(
                one_line(f"allocations exist from {' '.join(in_use)}; `stead who {provider.name}` lists them")
            )
        if not dry_run:
            for each in doomed:
                delete_provider(api, each)
    if options().json:
        print_json({"dry_run": dry_run, "deleted": [{"uuid": each.uuid, "name": each.name} for each in doomed]})
        return
    for each in doomed:
        say(f"{'would delete' if dry_run else 'deleted'} {printable(each.name)}")


@app.command()
def disable(
    name: Name,
    reason: Annotated[str, typer.Option(help="Reason, for the next operator.")],
    until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Time at which the server enables it, such as 2031-01-01T00:00:00Z. Default: never."
        ),
    ] = None,
    dry_run: DryRun = False,
) -> None:
    """Take a provider, and all below it, out of service: it accepts no new allocations. Existing ones stay."""
    _set_state(name, {"reason": reason, "until": until}, "disabled", dry_run=dry_run)


@app.command()
def enable(name: Name, dry_run: DryRun = False) -> None:
    """Return a provider to service."""
    _set_state(name, None, "enabled", dry_run=dry_run)


def _set_state(name: str, disabled: dict[str, Any] | None, state: str, *, dry_run: bool) -> None:
    with connect() as api:
        provider = fetch_provider(api, name).provider
        if not dry_run:
            set_disabled(api, provider, disabled)
    if options().json:
        print_json({"dry_run": dry_run, "uuid": provider.uuid, "name": provider.name, "disabled": disabled})
        return
    below = sum(1 for _ in walk(provider.children))
    with_below = f" and {below:,} below it" if below else ""
    say(f"{'would be ' if dry_run else ''}{state}: {printable(provider.name)}{with_below}")


def _changed(kind: str, names: list[str], added: Iterable[str] | None, removed: Iterable[str] | None) -> list[str]:
    """*names* with those added and without those removed.

    Raises:
        CommandError: a name to remove does not exist.
    """
    from stead.cli.suggestions import suggestion

    for name in removed or ():
        if name not in names:
            raise CommandError(f"there is no {kind} {name} to remove.{suggestion(name, names)}")
    return sorted({*names, *(added or ())} - set(removed or ()))


def _names(located: Located) -> dict[str, str]:
    return {each.uuid: each.name for each in (*located.above, located.provider)}


def _write(
    api: Site, records: list[dict[str, Any]], names: dict[str, str], *, dry_run: bool, allow_overcommit: bool = False
) -> None:
    """Ask for the plan, carry it out unless *dry_run*, and print it."""
    from stead.cli.drawing.provider import describe_plan

    plan = write_providers(api, records, dry_run=True, allow_overcommit=allow_overcommit)
    done = plan if dry_run else write_providers(api, records, dry_run=False, allow_overcommit=allow_overcommit)
    is_refused = dry_run and bool(plan["in_use"] or (plan["overcommitted"] and not allow_overcommit))
    if options().json:
        differences = [each.get("differences", {}) for each in plan["providers"]]
        told = [{**each, "differences": own} for each, own in zip(done["providers"], differences, strict=True)]
        print_json({**done, "providers": told})
        if is_refused:
            raise typer.Exit(NO)
        return
    for sentence in describe_plan(plan, names):
        say(one_line(sentence))
    if not any(each["changes"] for each in plan["providers"]):
        say("nothing to change")
    elif dry_run:
        say("(a dry run: nothing was done)")
    if is_refused:
        raise typer.Exit(NO)
