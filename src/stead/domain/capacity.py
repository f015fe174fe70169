"""Capacity of a site, for metrics: the inventories of its providers, and their sums."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sums:
    """Sums of one resource class over some providers; ``providers`` counts those that have inventory of it."""

    resource_class: str
    providers: int
    total: float
    reserved: float
    capacity: float
    used: float


@dataclass(frozen=True, slots=True)
class Inventories:
    """The inventories of one resource class. All lists are in the same order of providers, which are names."""

    resource_class: str
    providers: list[str]
    total: list[float]
    reserved: list[float]
    allocation_ratio: list[float]
    used: list[int]
