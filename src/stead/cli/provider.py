"""``stead provider``: shows one provider on one page, and changes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from stead.class_order import class_order, in_class_order
from stead.cli import arguments
from stead.cli.arguments import options
from stead.cli.errors import NO, CommandError, Negative
from stead.cli.forest import as_json, capacity, walk
from stead.cli.server import connect
from stead.cli.suggestions import suggestion
from stead.cli.terminal import draw_list, in_words, line_width, number, page_lines, print_json, say, wrapped
from stead.cli.tree import find, find_provider
from stead.domain.names import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from stead import Site
    from stead.cli.forest import Provider
    from stead.cli.tree import Located

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
    with connect() as site:
        located = find(site, name)
        allocations = site.allocations(located.provider.uuid)
    if options().json:
        consumers = {uuid: {"resources": amounts} for uuid, amounts in sorted(allocations.items())}
        print_json({**as_json(located.provider), "path": located.path, "consumers": consumers})
        return
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
    with connect() as site:
        located = find(site, name)
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
        _write(site, [record], _names(located), dry_run=dry_run, allow_overcommit=allow_overcommit)


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
    with connect() as site:
        for called in (name, uuid):
            if called is not None and find_provider(site, called) is not None:
                raise Negative(f"resource provider {called!r} exists")
        parent = None if below is None else find(site, below).provider
        record: dict[str, Any] = {"name": name, "parent_provider_uuid": parent and parent.uuid}
        if uuid is not None:
            record["uuid"] = uuid
        record["inventories"] = arguments.changed({}, inventory or [], [])
        record |= {"traits": trait or [], "aggregates": aggregate or []}
        _write(site, [record], {parent.uuid: parent.name} if parent else {}, dry_run=dry_run)


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
    with connect() as site:
        located = find(site, name)
        parent = None if below is None else find(site, below).provider
        names = _names(located) | ({parent.uuid: parent.name} if parent else {})
        _write(
            site,
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
    with connect() as site:
        provider = find(site, name).provider
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
                site.delete_provider(each.uuid)
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
    with connect() as site:
        provider = find(site, name).provider
        if not dry_run:
            site.disable(provider.uuid, reason, until=until)
    _report_state(provider, {"reason": reason, "until": until}, "disabled", dry_run=dry_run)


@app.command()
def enable(name: Name, dry_run: DryRun = False) -> None:
    """Return a provider to service."""
    with connect() as site:
        provider = find(site, name).provider
        if not dry_run:
            site.enable(provider.uuid)
    _report_state(provider, None, "enabled", dry_run=dry_run)


def _report_state(provider: Provider, disabled: dict[str, Any] | None, state: str, *, dry_run: bool) -> None:
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
    for name in removed or ():
        if name not in names:
            raise CommandError(f"there is no {kind} {name} to remove.{suggestion(name, names)}")
    return sorted({*names, *(added or ())} - set(removed or ()))


def _names(located: Located) -> dict[str, str]:
    return {each.uuid: each.name for each in (*located.above, located.provider)}


def _write(
    site: Site, records: list[dict[str, Any]], names: dict[str, str], *, dry_run: bool, allow_overcommit: bool = False
) -> None:
    """Ask for the plan, carry it out unless *dry_run*, and print it."""

    def apply(*, dry_run: bool) -> dict[str, Any]:
        document = {"provider_trees": [{"providers": records}]}
        options = {"exact": True, "create_names": True, "allow_overcommit": allow_overcommit}
        return site.apply(document, **options, dry_run=dry_run).document

    plan = apply(dry_run=True)
    done = plan if dry_run else apply(dry_run=False)
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


# Drawing: one page, and changes as sentences.


_TITLES = 12  # cells
_MOST_CONSUMERS = 20
_INVENTORY = ("inventory", "total", "reserved", "ratio", "min", "max", "step", "capacity", "used", "free")
_UNLIMITED = 2147483647


def draw_provider(
    provider: Provider, path: Sequence[str], allocations: Mapping[str, Mapping[str, int]], width: int
) -> Iterator[Text]:
    """The lines of the page, none longer than *width* cells.

    Args:
        path: the names from the root to the provider.
        allocations: amounts per class, by consumer.
    """
    yield from wrapped(Text(printable(provider.name), style="bold"), width)
    below = sum(1 for _ in walk(provider.children))
    facts = {
        "uuid": provider.uuid,
        "generation": str(provider.generation),
        "state": _state(provider),
        "tree": " › ".join(path) + (f", {below:,} below" if below else ""),
        "children": " ".join(child.name for child in provider.children),
        "traits": " ".join(sorted(provider.traits)),
        "aggregates": " ".join(sorted(provider.aggregates)),
    }
    for title, text in facts.items():
        if text:
            line = Text.assemble((title.ljust(_TITLES), "dim"), printable(text))
            yield from wrapped(line, width, min(_TITLES, width // 2))
    if provider.inventories:
        yield Text()
        yield from draw_list(
            _INVENTORY,
            [_row(provider, name) for name in sorted(provider.inventories, key=class_order)],
            width,
            _INVENTORY[1:],
        )
    yield Text()
    if not allocations:
        yield Text("no consumers", style="dim")
        return
    shown = sorted(allocations.items())[:_MOST_CONSUMERS]
    yield from draw_list(
        ("consumer", "allocations"), [(consumer, in_words(amounts)) for consumer, amounts in shown], width
    )
    if len(allocations) > len(shown):
        more = f"{len(allocations) - len(shown):,} more consumers; `stead who` lists them"
        yield from wrapped(Text(more, style="dim"), width)


def _state(provider: Provider) -> str:
    if not provider.is_disabled:
        return "enabled"
    facts = provider.disabled or {}
    reason, until = facts.get("reason"), facts.get("until")
    return "disabled" + (f": {reason}" if reason else "") + (f", until {until}" if until else "")


def _row(provider: Provider, name: str) -> list[str]:
    record = provider.inventories[name]
    used = provider.usages.get(name, 0)
    most = "–" if record["max_unit"] == _UNLIMITED else number(record["max_unit"])
    numbers = [number(record["total"]), number(record["reserved"]), f"{record['allocation_ratio']:g}"]
    numbers += [number(record["min_unit"]), most, number(record["step_size"])]
    return [name, *numbers, number(capacity(record)), number(used), number(capacity(record) - used)]


def describe_plan(plan: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """The changes of a dry run of PUT ``/provider_trees``, as one sentence each.

    Args:
        names: names of parents, by UUID.
    """
    for name in [*plan["created_names"]["resource_classes"], *plan["created_names"]["traits"]]:
        yield f"create {name}"
    for each in plan["providers"]:
        yield from _place(each, names)
        yield from _contents(each)
    for over in plan["overcommitted"]:
        yield (
            f"over-committed: {over['resource_class']} of {over['name']}: "
            f"{over['used']:,} used, capacity {over['capacity_after']:,}"
        )
    for used in plan["in_use"]:
        what = f"{used['resource_class']} of {used['name']}" if used["resource_class"] else used["name"]
        yield f"in use: {what}: {used['used']:,} used"


def _place(each: Mapping[str, Any], names: Mapping[str, str]) -> Iterator[str]:
    """Sentences for the creation, renaming or move of a provider."""
    name, differences = each["name"], each.get("differences", {})
    parents = differences.get("parent_provider_uuid", {})
    before, after = (
        f"below {names.get(uuid, uuid)}" if (uuid := parents.get(side)) else "the top" for side in ("before", "after")
    )
    if "created" in each["changes"]:
        yield f"create provider {name}" + (f" {after}" if parents.get("after") else "")
    if "renamed" in each["changes"]:
        yield f"rename {differences['name']['before']} to {name}"
    if "moved" in each["changes"]:
        yield f"move {name} from {before} to {after}"


def _contents(each: Mapping[str, Any]) -> Iterator[str]:
    name, differences = each["name"], each.get("differences", {})
    for resource_class, change in in_class_order(differences.get("inventories", {})).items():
        yield f"{name}: {resource_class} {_inventory_change(change)}"
    for part in ("traits", "aggregates"):
        for verb in ("added", "removed"):
            for value in differences.get(part, {}).get(verb, ()):
                yield f"{name}: {part[:-1]} {value} {verb}"


def _inventory_change(change: Mapping[str, Any]) -> str:
    before, after = change["before"], change["after"]
    if after is None:
        return "removed"
    if before is None:
        return f"added: total {after['total']:,}, capacity {capacity(after):,}"
    parts = [
        f"{field} {_plain(before[field])} -> {_plain(after[field])}" for field in after if before[field] != after[field]
    ]
    if capacity(before) != capacity(after):
        parts.append(f"capacity {capacity(before):,} -> {capacity(after):,}")
    return ", ".join(parts) + (f" ({change['used']:,} used)" if change["used"] else "")


def _plain(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
