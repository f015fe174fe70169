"""What other claims announced is subtracted where their providers are, even if a slot got another provider since."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.domain.claim import Granted
from stead.service.claims import PendingClaim
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider
from tests.rooms.candidates.snapshots import snapshot_of

if TYPE_CHECKING:
    from stead.catalog.snapshot import Snapshot

ONE, OTHER = (PlainProvider(name, None, {"VCPU": PlainInventory(4)}) for name in ("one", "other"))


def site_of(*providers: PlainProvider) -> Snapshot:
    return snapshot_of(Forest(providers, frozenset({"VCPU"}), frozenset()))


def announced_in(snapshot: Snapshot, *providers: PlainProvider) -> PendingClaim:
    """Two units of each of *providers*."""
    vcpu = snapshot.class_names.by_name["VCPU"].id
    amounts = {slot: {vcpu: 2} for provider in providers if (slot := snapshot.find(provider.uuid)) is not None}
    return PendingClaim(
        [Granted({provider.uuid: {"VCPU": 2}}, {}) for provider in providers], snapshot.identities, amounts
    )


def test_the_amounts_are_those_of_the_search_while_the_providers_are_the_same() -> None:
    snapshot = site_of(ONE, OTHER)
    announced = announced_in(snapshot, ONE)
    assert announced.amounts_in(snapshot) is announced.amounts
    assert announced.amounts_in(snapshot.with_taken(announced.amounts)) is announced.amounts


def test_in_a_snapshot_with_other_slots_the_amounts_follow_their_providers() -> None:
    announced, later = announced_in(site_of(ONE, OTHER), ONE), site_of(OTHER, ONE)
    assert announced.amounts_in(later) == announced_in(later, ONE).amounts != announced.amounts


def test_a_provider_that_is_gone_has_no_amounts() -> None:
    announced, later = announced_in(site_of(ONE, OTHER), ONE, OTHER), site_of(OTHER)
    assert announced.amounts_in(later) == announced_in(later, OTHER).amounts
