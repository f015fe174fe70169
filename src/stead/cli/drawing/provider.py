"""One provider on one page, and changes of providers as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.text import Text

from stead.class_order import class_order, in_class_order
from stead.cli.drawing.consumers import in_words
from stead.cli.forest import capacity, walk
from stead.cli.terminal import draw_list, number, wrapped
from stead.domain.names import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from stead.cli.forest import Provider

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
