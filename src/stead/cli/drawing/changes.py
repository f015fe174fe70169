"""Changes as lines: when, what, and the amounts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.class_order import in_class_order
from stead.cli.drawing.consumers import in_words
from stead.cli.fetching.changes import ConsumerChange, ProviderChange
from stead.cli.terminal import number
from stead.domain.names import one_line

if TYPE_CHECKING:
    from datetime import datetime


def line_of(change: ProviderChange | ConsumerChange, now: datetime) -> str:
    """``18:59:11 provider host-1: 4 / 16 VCPU``."""
    text = _provider(change) if isinstance(change, ProviderChange) else _consumer(change)
    return one_line(f"{now:%H:%M:%S} {text}")


def _provider(change: ProviderChange) -> str:
    if change.generation is None:
        return f"provider {change.name} deleted"
    amounts = ", ".join(
        f"{number(amount.used)} / {number(amount.capacity)} {name}"
        for name, amount in in_class_order(change.amounts).items()
    )
    return f"provider {change.name}{': ' + amounts if amounts else ' changed'}"


def _consumer(change: ConsumerChange) -> str:
    if change.generation is None:
        return f"consumer {change.uuid} released"
    if change.consumer is None:
        return f"consumer {change.uuid} changed"
    owner = f"{change.consumer.type} of project {change.consumer.project}"
    return f"consumer {change.uuid} ({owner}): {in_words(change.consumer.amounts)} from {', '.join(change.places)}"
