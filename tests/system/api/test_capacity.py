"""What a claim may take, through PUT and POST of allocations. Source: "The capacity check", docs/api.md."""

import pytest

from tests.system.api.client import Api, Provider, fresh_uuid, holding

EXCEEDS = "The requested amount would exceed the capacity"
VIOLATES = "The requested amount would violate inventory constraints"


def put(api: Api, host: Provider, amount: int, *, consumer: str | None = None, generation: int | None = None) -> int:
    """The status of claiming so many VCPU."""
    body = holding((host, {"VCPU": amount}), generation=generation)
    return api.put(f"/allocations/{consumer or fresh_uuid()}", body).status


@pytest.mark.parametrize(
    ("record", "largest", "beyond"),
    [
        ({"total": 8}, 8, 9),
        ({"total": 8, "reserved": 3}, 5, 6),
        ({"total": 8, "reserved": 8}, None, 1),
        ({"total": 8, "allocation_ratio": 1.5}, 12, 13),
        ({"total": 9, "reserved": 4, "allocation_ratio": 2.5}, 12, 13),  # of 12.5
        ({"total": 8, "allocation_ratio": 0.0}, None, 1),
        ({"total": 8, "max_unit": 3}, 3, 4),
        ({"total": 8, "min_unit": 3}, 3, 2),
        ({"total": 8, "step_size": 3}, 6, 9),
        ({"total": 100, "allocation_ratio": 0.29}, 28, 29),  # of 28.999999999999996, as binary fractions go
    ],
)
def test_the_largest_amount_that_fits(api: Api, record: dict[str, float], largest: int | None, beyond: int) -> None:
    host = api.create_provider(inventories={"VCPU": record})
    assert put(api, host, beyond) == 409
    assert largest is None or put(api, host, largest) == 204


def test_the_last_unit_is_given_once(api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 4})
    assert [put(api, host, 2) for _ in range(3)] == [204, 204, 409]
    refused = api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 1})))
    assert refused.refused(409, "Unable to allocate inventory", EXCEEDS)
    assert api.used(host) == {"VCPU": 4}


@pytest.mark.parametrize(("amount", "fits"), [(3, False), (4, True), (6, False), (8, True), (12, True), (16, False)])
def test_an_amount_obeys_min_max_and_step(api: Api, amount: int, fits: bool) -> None:
    host = api.create_provider(inventories={"VCPU": {"total": 99, "min_unit": 4, "max_unit": 12, "step_size": 4}})
    answer = api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": amount})))
    assert answer.status == 204 if fits else answer.refused(409, "Unable to allocate inventory", VIOLATES)


def test_the_step_is_of_each_amount_not_of_their_sum(api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": {"total": 99, "step_size": 4}})
    body = {fresh_uuid(): holding((host, {"VCPU": 2})) for _ in range(2)}
    assert api.post("/allocations", body).refused(409, VIOLATES)


def test_constraints_hold_for_amounts_that_stay_or_shrink(api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 9})
    consumer = api.claim((host, {"VCPU": 6}))
    api.set_inventories(host, {"VCPU": {"total": 9, "max_unit": 4}})
    for amount in (6, 5):
        refused = api.put(f"/allocations/{consumer}", holding((host, {"VCPU": amount}), generation=1))
        assert refused.refused(409, VIOLATES)
    assert put(api, host, 4, consumer=consumer, generation=1) == 204


class TestMissingInventory:
    @pytest.mark.parametrize(
        ("amounts", "text"),
        [
            ({"PCI_DEVICE": 1}, "Inventory for 'PCI_DEVICE' on"),
            ({"VCPU": 1, "PCI_DEVICE": 1}, "Inventory for 'PCI_DEVICE' on resource provider '{host}' invalid"),
            ({"PCI_DEVICE": 1, "VCPU": 1}, "Inventory for 'PCI_DEVICE' on resource provider '{host}' invalid"),
        ],
    )
    def test_a_class_that_the_provider_does_not_have_is_refused(
        self, api: Api, amounts: dict[str, int], text: str
    ) -> None:
        host = api.create_provider(inventories={"VCPU": 9})
        refused = api.put(f"/allocations/{fresh_uuid()}", holding((host, amounts)))
        assert refused.refused(409, "Unable to allocate inventory", text.format(host=host.uuid))
        assert api.used(host) == {"VCPU": 0}

    def test_a_provider_that_has_none_of_all_the_classes_is_refused(self, api: Api) -> None:
        host, bare = api.create_provider(inventories={"VCPU": 9}), api.create_provider()
        refused = api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 1}), (bare, {"VCPU": 1})))
        assert refused.refused(409, "Inventory for 'VCPU' on resource provider '", bare.uuid, "' invalid")

    def test_an_unknown_class_is_spoken_of_first(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        amounts = {"VCPU": 5, "PCI_DEVICE": 1, "CUSTOM_NOBODY_MADE_THIS": 1}
        refused = api.put(f"/allocations/{fresh_uuid()}", holding((host, amounts)))
        assert refused.refused(400, "No such resource class CUSTOM_NOBODY_MADE_THIS")


class TestOneRequest:
    def test_all_consumers_of_a_request_count_together(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 2})
        body = {fresh_uuid(): holding((host, {"VCPU": 1})) for _ in range(3)}
        assert api.post("/allocations", body).refused(409, "Unable to allocate inventory", EXCEEDS)
        assert api.used(host) == {"VCPU": 0}

    def test_what_the_request_gives_back_is_free_for_it(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 4})
        leaving, shrinking = api.claim((host, {"VCPU": 1})), api.claim((host, {"VCPU": 3}))
        body = {
            fresh_uuid(): holding((host, {"VCPU": 2})),
            shrinking: holding((host, {"VCPU": 2}), generation=1),
            leaving: holding(generation=1),
        }
        api.post("/allocations", body).expect(204)
        assert api.used(host) == {"VCPU": 4}

    def test_a_provider_is_checked_for_each_class(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 4, "DISK_GB": 1})
        refused = api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 1, "DISK_GB": 2})))
        assert refused.refused(409, EXCEEDS)
        assert api.used(host) == {"VCPU": 0, "DISK_GB": 0}


class TestOverCommitted:
    """An inventory that shrank below what is used may be kept or eased, never worsened."""

    @pytest.fixture
    def host(self, api: Api) -> Provider:
        return api.create_provider(inventories={"VCPU": 10})

    @pytest.fixture
    def holders(self, api: Api, host: Provider) -> tuple[str, str]:
        """Two consumers of 5 each, of a total that became 6."""
        pair = api.claim((host, {"VCPU": 5})), api.claim((host, {"VCPU": 5}))
        api.set_inventories(host, {"VCPU": 6})
        return pair

    @pytest.mark.parametrize(("amount", "expected"), [(6, 409), (5, 204), (4, 204), (1, 204)])
    def test_a_holder_keeps_or_gives_back(
        self, api: Api, host: Provider, holders: tuple[str, str], amount: int, expected: int
    ) -> None:
        assert put(api, host, amount, consumer=holders[0], generation=1) == expected
        assert api.used(host) == {"VCPU": 5 + (amount if expected == 204 else 5)}

    def test_a_newcomer_is_refused(self, api: Api, host: Provider, holders: tuple[str, str]) -> None:
        refused = api.put(f"/allocations/{fresh_uuid()}", holding((host, {"VCPU": 1})))
        assert refused.refused(409, EXCEEDS)

    @pytest.mark.parametrize(("amounts", "expected"), [((5, 5), 204), ((7, 3), 204), ((3, 6), 204), ((6, 5), 409)])
    def test_holders_may_swap_within_what_they_hold(
        self, api: Api, host: Provider, holders: tuple[str, str], amounts: tuple[int, int], expected: int
    ) -> None:
        pairs = zip(holders, amounts, strict=True)
        body = {consumer: holding((host, {"VCPU": amount}), generation=1) for consumer, amount in pairs}
        assert api.post("/allocations", body).status == expected

    @pytest.mark.parametrize(("amount", "expected"), [(5, 204), (6, 409)])
    def test_a_newcomer_may_take_over_from_a_holder(
        self, api: Api, host: Provider, holders: tuple[str, str], amount: int, expected: int
    ) -> None:
        body = {holders[0]: holding(generation=1), fresh_uuid(): holding((host, {"VCPU": amount}))}
        assert api.post("/allocations", body).status == expected

    def test_a_holder_may_stay_while_it_adds_another_provider(
        self, api: Api, host: Provider, holders: tuple[str, str]
    ) -> None:
        other = api.create_provider(inventories={"VCPU": 4})
        body = holding((host, {"VCPU": 5}), (other, {"VCPU": 4}), generation=1)
        api.put(f"/allocations/{holders[0]}", body).expect(204)
        assert (api.used(host), api.used(other)) == ({"VCPU": 10}, {"VCPU": 4})

    def test_after_enough_was_given_back_there_is_room_again(
        self, api: Api, host: Provider, holders: tuple[str, str]
    ) -> None:
        api.delete(f"/allocations/{holders[0]}").expect(204)
        assert [put(api, host, 1), put(api, host, 1)] == [204, 409]
