"""Names of resource classes and traits: which are standard, and which clients may create."""

from __future__ import annotations

import re

import os_resource_classes
import os_traits

from stead.domain.errors import InvalidTraitName

CUSTOM_NAME = r"^CUSTOM_[A-Z0-9_]+$"
RESOURCE_CLASS_NAME = r"^[A-Z0-9_]+$"
NAME_LENGTH = 255

MOST_NAMES = 100_000
"""Maximum number of resource classes, and of traits, of a site: each takes memory in every worker."""

FIRST_CUSTOM_CLASS_ID = 10000
"""Ids of standard classes are their positions in the library's list; custom classes start here."""

SHARES_VIA_AGGREGATE = "MISC_SHARES_VIA_AGGREGATE"
"""The trait that makes a provider a sharing provider."""

DISABLED_TRAIT = "COMPUTE_STATUS_DISABLED"
"""The trait by which other services see that a provider is disabled."""

STANDARD_RESOURCE_CLASSES: tuple[str, ...] = tuple(os_resource_classes.STANDARDS)
"""Position in this tuple = id in the database."""

STANDARD_TRAITS: frozenset[str] = frozenset(os_traits.get_traits())

_CUSTOM = re.compile(CUSTOM_NAME)


def is_standard_class(class_id: int) -> bool:
    """Whether a resource class is standard, so that it can be neither renamed nor deleted."""
    return class_id < FIRST_CUSTOM_CLASS_ID


def is_custom(name: str) -> bool:
    """Whether clients may create a resource class or trait with this name."""
    return _CUSTOM.fullmatch(name) is not None and len(name) <= NAME_LENGTH


def require_custom_trait(name: str) -> None:
    """Refuse a trait name that clients must not create.

    Raises:
        InvalidTraitName: not of the form ``CUSTOM_…``, or too long.
    """
    if not is_custom(name):
        raise InvalidTraitName(name)
