"""Names of consumers and aggregates become uuids, the same ones everywhere and always; and types of consumers."""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING
from uuid import UUID

from stead.client.errors import InvalidRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMESPACE = uuid.uuid5(uuid.NAMESPACE_DNS, "consumers.stead")
"""The namespace of consumer names: ``uuid.uuid5(NAMESPACE, name)`` is the uuid of the consumer with this name."""

AGGREGATES = uuid.uuid5(uuid.NAMESPACE_DNS, "aggregates.stead")
"""The same for names of aggregates."""

DEFAULT_TYPE = "INSTANCE"

UNKNOWN_TYPE = "unknown"
"""How the API shows a consumer without a type, such as all of nova's. Only POST ``/claims`` accepts it."""

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def uuid_of(consumer: str | UUID) -> str:
    """The uuid of a consumer: *consumer* itself if it is a uuid with hyphens, else the UUIDv5 of the name.

    Raises:
        InvalidRequest: the name is empty.
    """
    return _named(str(consumer), NAMESPACE, "a consumer")


def rack(name: str | UUID) -> str:
    """The uuid of an aggregate with this name, as a rack: *name* itself if it is a uuid with hyphens, else its UUIDv5.

    ``Node("host1", aggregates=rack("r7"))`` is in the rack that ``Group(member_of=rack("r7"))`` requests.

    Raises:
        InvalidRequest: the name is empty.
    """
    return _named(str(name), AGGREGATES, "an aggregate")


def _named(text: str, namespace: UUID, thing: str) -> str:
    if not text:
        raise InvalidRequest(f"{thing} needs a name or a uuid")
    return text.lower() if _UUID.fullmatch(text.lower()) else str(uuid.uuid5(namespace, text))


def names_of_gang(consumer: str | UUID | Sequence[str | UUID] | None, size: int) -> list[str]:
    """The names or uuids of the consumers of *size* claims: as given, or numbered from 0, or random uuids.

    Raises:
        InvalidRequest: there are more or fewer than *size*, or one occurs twice.
    """
    if consumer is None:
        names = [str(uuid.uuid4()) for _ in range(size)]
    elif isinstance(consumer, str | UUID):
        names = [str(consumer)] if size == 1 else [f"{consumer}-{number}" for number in range(size)]
    else:
        names = [str(name) for name in consumer]
    if len(names) != size or len(set(map(uuid_of, names))) != size:
        raise InvalidRequest(f"{size} claims need {size} different consumers, not {len(set(names))}")
    return names
