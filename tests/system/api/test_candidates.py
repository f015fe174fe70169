"""``GET /allocation_candidates`` on the wire: parameters, refusals, the form of the answer.

What matches is the subject of the examples (tests/system/examples).
"""

from typing import Any

import pytest

from tests.system.api.client import Api, Provider, fresh_uuid

UNKNOWN = "d0d0d0d0-0000-4000-8000-00000000dead"
MISSING, BAD, DUPLICATE = (
    "placement.query.missing_value",
    "placement.query.bad_value",
    "placement.query.duplicate_key",
)

Query = list[tuple[str, str]]


def ask(api: Api, *query: tuple[str, str], **more: str) -> Any:
    return api.get("/allocation_candidates", [*query, *more.items()])


class TestAnswer:
    @pytest.fixture
    def lamp(self, api: Api) -> str:
        return api.create_class()

    @pytest.fixture
    def host(self, api: Api, lamp: str) -> Provider:
        inventory = {"total": 9, "reserved": 2, "allocation_ratio": 1.5}
        host = api.create_provider(inventories={lamp: inventory, "VCPU": 4}, traits=["HW_CPU_X86_SHA"])
        api.claim((host, {lamp: 3}))
        return host

    def test_a_candidate_has_allocations_mappings_and_a_summary(self, api: Api, lamp: str, host: Provider) -> None:
        assert ask(api, resources=f"{lamp}:7").expect(200).json == {
            "allocation_requests": [
                {"allocations": {host.uuid: {"resources": {lamp: 7}}}, "mappings": {"": [host.uuid]}}
            ],
            "provider_summaries": {
                host.uuid: {
                    "resources": {lamp: {"capacity": 10, "used": 3}, "VCPU": {"capacity": 4, "used": 0}},
                    "traits": ["HW_CPU_X86_SHA"],
                    "parent_provider_uuid": None,
                    "root_provider_uuid": host.uuid,
                }
            },
        }

    def test_when_nothing_fits_the_answer_is_empty(self, api: Api, lamp: str, host: Provider) -> None:
        empty: dict[str, Any] = {"allocation_requests": [], "provider_summaries": {}}
        assert ask(api, resources=f"{lamp}:8").expect(200).json == empty

    def test_groups_are_mapped_by_their_suffixes(self, api: Api, lamp: str, host: Provider) -> None:
        child = api.create_provider(parent=host, inventories={lamp: 1})
        found = ask(
            api,
            ("resources", "VCPU:1"),
            ("resources_B-4", f"{lamp}:1"),
            ("in_tree_B-4", child.uuid),
            ("resources1", f"{lamp}:5"),
            ("group_policy", "isolate"),
        ).expect(200)
        assert found.allocation_requests == [
            {
                "allocations": {
                    host.uuid: {"resources": {"VCPU": 1, lamp: 5}},
                    child.uuid: {"resources": {lamp: 1}},
                },
                "mappings": {"": [host.uuid], "_B-4": [child.uuid], "1": [host.uuid]},
            }
        ]
        summaries = found.provider_summaries
        assert summaries[child.uuid]["parent_provider_uuid"] == host.uuid
        assert summaries[child.uuid]["root_provider_uuid"] == host.uuid

    def test_a_candidate_may_be_sent_as_it_is(self, api: Api, lamp: str, host: Provider) -> None:
        (candidate,) = ask(api, resources=f"{lamp}:2,VCPU:1").expect(200).allocation_requests
        consumer = fresh_uuid()
        api.put(
            f"/allocations/{consumer}",
            {**candidate, "consumer_generation": None, "project_id": "p", "user_id": "u", "consumer_type": "VM"},
        ).expect(204)
        assert api.held(consumer) == {host.uuid: {lamp: 2, "VCPU": 1}}

    def test_a_claim_is_seen_by_the_next_question(self, api: Api, lamp: str, host: Provider) -> None:
        def capacity_used() -> dict[str, int]:
            summaries = ask(api, resources=f"{lamp}:1").provider_summaries
            return dict(summaries[host.uuid]["resources"][lamp])

        assert capacity_used() == {"capacity": 10, "used": 3}
        consumer = api.claim((host, {lamp: 5}))
        assert capacity_used() == {"capacity": 10, "used": 8}
        api.delete(f"/allocations/{consumer}").expect(204)
        assert capacity_used() == {"capacity": 10, "used": 3}
        api.set_inventories(host, {lamp: 100, "VCPU": 1})
        assert capacity_used() == {"capacity": 100, "used": 3}

    def test_a_tree_that_took_the_place_of_another_between_two_questions_is_whole(self, empty_api: Api) -> None:
        api = empty_api
        for _ in range(3):
            root = api.create_provider()
            children = [api.create_provider(parent=root) for _ in range(2)]
            for child in children:
                api.set_inventories(child, {"VCPU": 1}, generation=0)
            found = ask(api, resources="VCPU:1").expect(200)
            offered = {uuid for one in found.allocation_requests for uuid in one["allocations"]}
            assert offered == {child.uuid for child in children}
            for gone in (*children, root):
                api.delete(gone.path).expect(204)

    def test_no_more_than_limit_are_returned_with_their_summaries_only(self, api: Api) -> None:
        lamp = api.create_class()
        for _ in range(4):
            api.create_provider(inventories={lamp: 1})
        found = ask(api, resources=f"{lamp}:1", limit="3").expect(200)
        offered = {uuid for request in found.allocation_requests for uuid in request["allocations"]}
        assert (len(found.allocation_requests), set(found.provider_summaries)) == (3, offered)
        assert len(ask(api, resources=f"{lamp}:1", limit="99").allocation_requests) == 4

    def test_the_first_of_repeated_limits_is_used(self, api: Api) -> None:
        lamp = api.create_class()
        for _ in range(3):
            api.create_provider(inventories={lamp: 1})
        found = ask(api, ("resources", f"{lamp}:1"), ("limit", "1"), ("limit", "2")).expect(200)
        assert len(found.allocation_requests) == 1

    @pytest.mark.differs("its answer to a repeated limit that starts with a word is no 400")
    def test_a_repeated_limit_that_starts_with_a_word_is_refused(self, api: Api) -> None:
        assert ask(api, ("resources", "VCPU:1"), ("limit", "many"), ("limit", "2")).refused(400)

    def test_the_answer_is_not_for_caches(self, api: Api, lamp: str, host: Provider) -> None:
        answer = ask(api, resources=f"{lamp}:1")
        assert answer.header("cache-control") == "no-cache"
        assert answer.header("last-modified")


CONFLICT = "Conflicting required and forbidden traits found in the following traits keys:"
UUIDS = "Expected 'member_of' parameter to contain valid UUID(s)."
MANY_UUIDS = (
    "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword using the valid microversion."
)
POLICY = 'The "group_policy" parameter is required when specifying more than one "resources{N}" parameter.'
IN_TREE = "Expected 'in_tree' parameter to be a format of uuid"
PATTERN_OF_MEMBER_OF = "^member_of([a-zA-Z0-9_-]{1,64})?$"


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("resources=VCPU:1&colour=red", ["'colour' does not match any of the regexes", PATTERN_OF_MEMBER_OF]),
        ("resources=VCPU:1&resources!=VCPU:1", ["does not match any of the regexes"]),
        (f"resources=VCPU:1&resources{'x' * 65}=VCPU:1", ["does not match any of the regexes"]),
        ("resources=VCPU:1&limit=0", ["Failed validating 'pattern'"]),
        ("resources=VCPU:1&limit=-1", ["Failed validating 'pattern'"]),
        ("resources=VCPU:1&limit=many", ["Failed validating 'pattern'"]),
        ("resources=VCPU:1&limit=", ["Failed validating 'pattern'"]),
        ("resources=VCPU:1&group_policy=bogus", ["'bogus' is not one of ['none', 'isolate']"]),
    ],
)
def test_an_unknown_key_or_form_is_refused(api: Api, query: str, texts: list[str]) -> None:
    refused = api.get(f"/allocation_candidates?{query}")
    assert refused.refused(400, "Invalid query string parameters", *texts)


@pytest.mark.parametrize(
    ("query", "texts"),
    [
        ("resources=", ["Badly formed resources parameter.", "Got: empty string."]),
        ("resources=VCPU", ["Badly formed resources parameter.", "Got: VCPU."]),
        ("resources=VCPU:1,", ["Badly formed resources parameter.", "Got: ."]),
        ("resources=VCPU:one", ["Requested resource VCPU expected positive integer amount.", "Got: one."]),
        ("resources=VCPU:0", ["Requested resource VCPU requires amount >= 1.", "Got: 0."]),
        ("resources1=VCPU:-1", ["Requested resource VCPU requires amount >= 1.", "Got: -1."]),
        ("resources=CUSTOM_NOBODY_MADE_THIS:1", ["Invalid resource class in resources parameter"]),
        ("resources=VCPU:1&resources1=CUSTOM_NOBODY_MADE_THIS:1", ["Invalid resource class in resources parameter"]),
        ("resources=VCPU:1&required=", ["Expected 'required' parameter value of the form:"]),
        ("resources=VCPU:1&required=HW_CPU_X86_SHA,", ["of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC."]),
        ("resources=VCPU:1&required=CUSTOM_NOBODY_MADE_THIS", ["No such trait(s): CUSTOM_NOBODY_MADE_THIS"]),
        ("resources1=VCPU:1&required1=!CUSTOM_NOBODY_MADE_THIS", ["No such trait(s): CUSTOM_NOBODY_MADE_THIS"]),
        ("resources=VCPU:1&required=in:CUSTOM_NOBODY_MADE_THIS,HW_CPU_X86_SHA", ["No such trait(s): CUSTOM_NO"]),
        ("resources=VCPU:1&root_required=CUSTOM_NOBODY_MADE_THIS", ["No such trait(s): CUSTOM_NOBODY_MADE_THIS"]),
        ("resources=VCPU:1&required=HW_CPU_X86_SHA,!HW_CPU_X86_SHA", [CONFLICT, "required: (HW_CPU_X86_SHA)"]),
        ("resources_A=VCPU:1&required_A=HW_CPU_X86_SHA&required_A=!HW_CPU_X86_SHA", [CONFLICT, "required_A"]),
        ("resources=VCPU:1&member_of=nonsense", [UUIDS]),
        ("resources=VCPU:1&member_of=", [UUIDS]),
        ("resources=VCPU:1&member_of=in:", [UUIDS]),
        (f"resources=VCPU:1&member_of={UNKNOWN},{UNKNOWN}", [MANY_UUIDS]),
        ("resources=VCPU:1&in_tree=nonsense", [IN_TREE]),
        ("resources1=VCPU:1&in_tree1=nonsense", ["parameter to be a format of uuid"]),
        ("resources1=VCPU:1&resources2=VCPU:1", [POLICY]),
        ("resources=VCPU:1&root_required=in:HW_CPU_X86_SHA,HW_CPU_X86_SSE", []),
        ("resources=VCPU:1&root_required=", []),
    ],
)  # fmt: skip
def test_a_faulty_value_is_refused(api: Api, query: str, texts: list[str]) -> None:
    api.create_provider(inventories={"VCPU": 1})  # a group that nobody serves hides the faults of those after it
    assert api.get(f"/allocation_candidates?{query}").refused(400, *texts)


RESOURCELESS = "Resourceless suffixed group request should be specified in `same_subtree` query param"
REAL = "Real suffixes should be specified in `same_subtree`:"
EMPTY = "Empty string (unsuffixed group) can not be specified in `same_subtree`"


@pytest.mark.parametrize(
    ("query", "code", "text"),
    [
        ("", MISSING, "There must be at least one resources or resources[$S] parameter."),
        ("limit=1", MISSING, "There must be at least one resources or resources[$S] parameter."),
        ("required1=HW_CPU_X86_SHA&same_subtree=1", MISSING, "There must be at least one resources"),
        ("resources=VCPU:1&required1=HW_CPU_X86_SHA", BAD, RESOURCELESS),
        ("resources=VCPU:1&same_subtree=_A", BAD, REAL),
        ("resources_A=VCPU:1&same_subtree=_A,_B", BAD, REAL),
        ("resources_A=VCPU:1&same_subtree=_A,", BAD, EMPTY),
        ("resources_A=VCPU:1&same_subtree=", BAD, EMPTY),
        (
            "resources=VCPU:1&root_required=HW_CPU_X86_SHA,!HW_CPU_X86_SHA",
            BAD,
            "Conflicting required and forbidden traits found in root_required: HW_CPU_X86_SHA",
        ),
        (
            "resources=VCPU:1&root_required=HW_CPU_X86_SHA&root_required=HW_CPU_X86_SSE",
            DUPLICATE,
            "Query parameter 'root_required' may be specified only once.",
        ),
    ],
)
def test_a_fault_with_a_code_of_its_own(api: Api, query: str, code: str, text: str) -> None:
    assert api.get(f"/allocation_candidates?{query}").refused(400, text, code=code)


@pytest.mark.parametrize(("value", "status"), [("VCPU: 1", 200), (" VCPU:1", 400), ("VCPU:1, DISK_GB:1", 400)])
def test_blanks_around_an_amount_are_trimmed_and_others_belong_to_the_class(api: Api, value: str, status: int) -> None:
    assert ask(api, resources=value).status == status


def test_blanks_around_traits_trees_and_suffixes_are_trimmed(api: Api) -> None:
    host = api.create_provider(inventories={"VCPU": 1}, traits=["HW_CPU_X86_SHA", "HW_CPU_X86_SSE"])
    found = ask(
        api,
        ("resources_A", "VCPU:1"),
        ("required_A", " HW_CPU_X86_SHA , HW_CPU_X86_SSE "),
        ("in_tree_A", f" {host.uuid} "),
        ("required_B", "HW_CPU_X86_SHA"),
        ("same_subtree", " _A , _B "),
        ("group_policy", "none"),
    ).expect(200)
    assert [request["mappings"] for request in found.allocation_requests] == [{"_A": [host.uuid], "_B": [host.uuid]}]
