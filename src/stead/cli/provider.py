"""``stead provider``: lists providers, shows one on one page, and changes it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli import arguments
from stead.cli.aliases import with_name
from stead.cli.arguments import options, read_moment
from stead.cli.errors import NO, CommandError, Negative
from stead.cli.forest import as_json, as_row, capacity, sort_trees, walk
from stead.cli.server import connect, summary
from stead.cli.suggestions import suggestion
from stead.cli.terminal import (
    agreed,
    amount_text,
    console,
    draw_list,
    in_words,
    line_width,
    page_lines,
    print_json,
    progress,
    say,
    wrapped,
)
from stead.cli.text import Text
from stead.cli.tree import TreeFilter, fetch_trees, find, find_provider, is_pattern
from stead.client.errors import Refused, Unreachable
from stead.printing import class_order, in_class_order, one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from stead import Site
    from stead.cli.forest import Provider
    from stead.cli.tree import Located

app = typer.Typer(add_completion=False, no_args_is_help=True, help="List, show and change providers.")

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


@app.command("list")
def list_providers(
    name: Annotated[
        str | None, typer.Argument(metavar="PATTERN", help="Only names that match, such as 'compute-1*'.")
    ] = None,
    trait: Annotated[list[str] | None, typer.Option(help="Only providers with the trait; repeatable.")] = None,
    aggregate: Annotated[
        list[str] | None, typer.Option(metavar="UUID", help="Only providers in the aggregate; repeatable.")
    ] = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Only disabled providers.")] = False,
) -> None:
    """List providers, a line each: name, root, state, and used and capacity of each class."""
    chosen = TreeFilter(None, name, tuple(trait or ()), tuple(aggregate or ()))
    with connect() as site, progress("reading providers") as advance:
        tops = fetch_trees(site, chosen, advance)
    sort_trees(tops, "name")
    # A tree passes a filter if one of its providers does; here each has to.
    listed = [
        (provider, top)
        for top in tops
        for provider in walk([top])
        if chosen.passes(provider) and (provider.is_disabled or not disabled)
    ]
    if options().json:
        print_json({"providers": [{**as_row(provider), "root": top.name} for provider, top in listed]})
    else:
        page_lines(draw_providers(listed, line_width()))
    if not listed and (name or trait or aggregate):
        raise Negative("no resource provider matches")


@app.command()
def show(name: Name) -> None:
    """Show one provider on one page: tree, state, inventories, traits, aggregates, consumers."""
    with connect() as site:
        located = find(site, name)
        allocations = site.allocations(located.provider.uuid)
    if options().json:
        consumers = {uuid: {"resources": amounts} for uuid, amounts in sorted(allocations.items())}
        told = {**as_json(located.provider), "path": located.path, "consumers": consumers}
        print_json(told, [as_row(located.provider)])
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


Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="PROVIDER", help="UUIDs or names, or patterns of names such as 'compute-00*'.", show_default=False
    ),
]
WithTrait = Annotated[
    list[str] | None, typer.Option("--trait", metavar="TRAIT", help="All providers with the trait; repeatable.")
]
InAggregate = Annotated[
    list[str] | None,
    typer.Option("--aggregate", metavar="UUID", help="All providers in the aggregate; repeatable."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Change several providers without asking.")]


@app.command()
def disable(
    reason: Annotated[str, typer.Option(help="Reason, for the next operator.")],
    names: Names = None,
    trait: WithTrait = None,
    aggregate: InAggregate = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="When the server enables it: 12h, 7d or a time with a zone. Default: never."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Take providers, and all below them, out of service: they accept no new allocations. Existing ones stay.

    Several providers are listed first, and the command asks.
    """
    until = None if until is None else read_moment("--until", until)
    with connect() as site:
        change = _Change("disabled", {"reason": reason, "until": until}, dry_run=dry_run)
        _change_state(
            site,
            _Selection(names or [], trait or [], aggregate or []),
            change,
            lambda provider: site.disable(provider.uuid, reason, until=until),
            yes=yes,
        )


@app.command()
def enable(
    names: Names = None,
    trait: WithTrait = None,
    aggregate: InAggregate = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Return providers to service. Several are listed first, and the command asks."""
    with connect() as site:
        _change_state(
            site,
            _Selection(names or [], trait or [], aggregate or []),
            _Change("enabled", None, dry_run=dry_run),
            lambda provider: site.enable(provider.uuid),
            yes=yes,
        )


@dataclass(frozen=True, slots=True)
class _Selection:
    """Which providers a command changes: all that pass every condition."""

    names: Sequence[str]
    traits: Sequence[str]
    aggregates: Sequence[str]

    @property
    def is_single(self) -> bool:
        """Whether it can only be one provider."""
        return len(self.names) == 1 and not (is_pattern(self.names[0]) or self.traits or self.aggregates)

    def providers(self, site: Site) -> list[Provider]:
        """The providers, without those below another one, since a change of that holds for them too.

        Raises:
            CommandError: nothing selects any.
            Negative: a name, or the whole selection, matches none.
        """
        if not (self.names or self.traits or self.aggregates):
            raise CommandError("give a PROVIDER, --trait or --aggregate (see `stead provider disable --help`)")
        chosen: dict[str, Provider] = {}
        for name in self.names or (None,):
            matching = self._called(site, name)
            if not matching:
                raise Negative(f"no resource provider matches{'' if name is None else f' {name!r}'}")
            chosen.update((provider.uuid, provider) for provider in matching)
        below = {each.uuid for provider in chosen.values() for each in walk(provider.children)}
        return [provider for uuid, provider in chosen.items() if uuid not in below]

    def _called(self, site: Site, name: str | None) -> list[Provider]:
        conditions = TreeFilter(None, None, tuple(self.traits), tuple(self.aggregates))
        if name is not None and not is_pattern(name):
            provider = find(site, name).provider
            return [provider] if conditions.passes(provider) else []
        conditions = replace(conditions, name=name)
        with progress("reading providers") as advance:
            tops = fetch_trees(site, conditions, advance)
        sort_trees(tops, "name")
        return [provider for provider in walk(tops) if conditions.passes(provider)]


@dataclass(frozen=True, slots=True)
class _Change:
    """The state that providers get, and what the API says of it."""

    state: str
    disabled: dict[str, Any] | None
    dry_run: bool

    def as_json(self, provider: Provider) -> dict[str, Any]:
        return {"uuid": provider.uuid, "name": provider.name, "disabled": self.disabled}

    def sentence(self, provider: Provider) -> str:
        below = sum(1 for _ in walk(provider.children))
        with_below = f" and {below:,} below it" if below else ""
        return f"{'would be ' if self.dry_run else ''}{self.state}: {printable(provider.name)}{with_below}"


def _change_state(
    site: Site, selection: _Selection, change: _Change, write: Callable[[Provider], object], *, yes: bool
) -> None:
    providers = selection.providers(site)
    if selection.is_single:
        (provider,) = providers
        if not change.dry_run:
            write(provider)
        if options().json:
            print_json({"dry_run": change.dry_run, **change.as_json(provider)})
        else:
            say(change.sentence(provider))
        return
    if not (yes or change.dry_run or _agreed(providers, change)):
        raise CommandError("nothing was changed")
    failures: dict[str, str] = {}
    for provider in providers if not change.dry_run else ():
        try:
            write(provider)
        except Unreachable:
            raise
        except Refused as error:  # such as one that was deleted meanwhile
            failures[provider.uuid] = summary(error)
    _report_states(providers, change, failures)
    if failures:
        raise typer.Exit(NO)


def _agreed(providers: Sequence[Provider], change: _Change) -> bool:
    count = "1 provider" if len(providers) == 1 else f"{len(providers):,} providers"
    listing = draw_providers([(provider, provider) for provider in providers], console(stderr=True).width)
    question = f"{change.state.removesuffix('d').capitalize()} {count}, with all below?"
    return agreed(question, "changing several providers", listing)


def _report_states(providers: Sequence[Provider], change: _Change, failures: Mapping[str, str]) -> None:
    done = [provider for provider in providers if provider.uuid not in failures]
    if options().json:
        failed = [{"uuid": uuid, "reason": reason} for uuid, reason in failures.items()]
        print_json({"dry_run": change.dry_run, "providers": [change.as_json(each) for each in done], "failed": failed})
        return
    for provider in done:
        say(change.sentence(provider))
    for provider in providers:
        if provider.uuid in failures:
            say(one_line(f"not {change.state}: {provider.name}: {failures[provider.uuid]}"))


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


# Drawing: a table, one page, and changes as sentences.


def draw_providers(listed: Sequence[tuple[Provider, Provider]], width: int) -> Iterator[Text]:
    """The lines of a table of providers with their roots, none longer than *width* cells."""
    if not listed:
        yield Text("no resource providers", style="dim")
        return
    rows = []
    for provider, top in listed:
        amounts = (
            f"{amount_text(name, amount.used)} / {amount_text(name, amount.capacity)} {name}"
            for name, amount in in_class_order(provider.amounts).items()
        )
        state = "disabled" if provider.is_disabled else ""
        rows.append([provider.name, "" if provider is top else top.name, state, ", ".join(amounts)])
    headings = ("provider", "root", "state", "used")
    shown = [place for place in range(len(headings)) if any(row[place] for row in rows)]
    cells = [[row[place] for place in shown] for row in rows]
    yield from draw_list([headings[place] for place in shown], cells, width, least_last=_LEAST_USED)


_LEAST_USED = 24  # cells, for `8 / 16 GiB MEMORY_MB,`
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
        "aggregates": ", ".join(map(with_name, sorted(provider.aggregates))),
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
        ("consumer", "allocations"), [(with_name(consumer), in_words(amounts)) for consumer, amounts in shown], width
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
    room = capacity(record)
    amounts = {
        each: amount_text(name, record[each]) for each in ("total", "reserved", "min_unit", "max_unit", "step_size")
    }
    if record["max_unit"] == _UNLIMITED:
        amounts["max_unit"] = "–"
    total, reserved, *units = amounts.values()
    return [
        *(name, total, reserved, f"{record['allocation_ratio']:g}", *units),
        *(amount_text(name, amount) for amount in (room, used, room - used)),
    ]


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
