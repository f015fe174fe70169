"""Metrics of capacity, in the text format of Prometheus: sums of the site, and the inventories of each provider.

Text is written straight from lists: prometheus_client would make an object of each of 100,000 samples. The names of the
metrics of providers are those of the exporter that OpenStack operators use.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from stead.domain.capacity import Inventories, Sums

SUMS = (
    ("stead_capacity_providers", "providers", "Resource providers with inventory of a class."),
    ("stead_capacity_inventory", "total", "Totals of the inventories of a class."),
    ("stead_capacity_reserved", "reserved", "Reserved amounts of the inventories of a class."),
    (
        "stead_capacity_allocatable",
        "capacity",
        "Capacity of the inventories of a class: (total - reserved) * allocation_ratio of each.",
    ),
    ("stead_capacity_used", "used", "Allocations of a class."),
)
"""Name, attribute of `Sums` and meaning."""

PROVIDERS = (
    ("openstack_placement_resource_total", "total", "Total of an inventory."),
    ("openstack_placement_resource_reserved", "reserved", "Reserved amount of an inventory."),
    ("openstack_placement_resource_allocation_ratio", "allocation_ratio", "Allocation ratio of an inventory."),
    ("openstack_placement_resource_usage", "used", "Allocations of an inventory."),
)
"""Name, attribute of `Inventories` and meaning."""


@dataclass(frozen=True, slots=True)
class Group:
    """Providers that are summed: all of them, those with a trait, or those of an aggregate; and their sums."""

    sums: Sequence[Sums]
    trait: str = ""
    aggregate: str = ""

    @property
    def labels(self) -> str:
        """The labels that select the group, with a comma in front; none for all providers."""
        parts = (("trait", self.trait), ("aggregate", self.aggregate))
        return "".join(f',{name}="{escaped(value)}"' for name, value in parts if value)


def escaped(value: str) -> str:
    """*value* as that of a label. Source: "Text-based format" of the Prometheus documentation."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def text_of_sums(groups: Iterable[Group]) -> str:
    """The metrics of :data:`SUMS`."""
    groups = list(groups)
    return "".join(
        family(
            name,
            meaning,
            (
                # 17 digits distinguish any two floats.
                f'{name}{{resource_class="{sums.resource_class}"{group.labels}}} {getattr(sums, attribute):.17g}\n'
                for group in groups
                for sums in group.sums
            ),
        )
        for name, attribute, meaning in SUMS
    )


def text_of_providers(classes: Iterable[Inventories]) -> str:
    """The metrics of :data:`PROVIDERS`. ``hostname`` is the name of the provider, which for a root is its host's."""
    by_class = [(inventories, _labels(inventories)) for inventories in classes]
    return "".join(family(name, meaning, _samples(name, attribute, by_class)) for name, attribute, meaning in PROVIDERS)


def _labels(inventories: Inventories) -> list[str]:
    """The labels of each provider, with the space after them; written once for all metrics."""
    rest = f'",resourcetype="{inventories.resource_class}"}} '
    return [f'{{hostname="{escaped(name)}{rest}' for name in inventories.providers]


def _samples(name: str, attribute: str, by_class: Sequence[tuple[Inventories, list[str]]]) -> Iterator[str]:
    for inventories, labels in by_class:
        values = getattr(inventories, attribute)
        yield "".join([f"{name}{label}{value:.17g}\n" for label, value in zip(labels, values, strict=True)])


def family(name: str, meaning: str, samples: Iterable[str]) -> str:
    """One metric, a gauge, with its *samples*, a line each."""
    return f"# HELP {name} {meaning}\n# TYPE {name} gauge\n{''.join(samples)}"
