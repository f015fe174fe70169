"""``/resource_providers`` and ``/resource_providers/{uuid}``."""

import re
from collections.abc import Callable
from urllib.parse import quote

import pytest

from tests.system.api.client import DUPLICATE_NAME, NEWEST, UNDEFINED, Api, Provider, fresh_name, fresh_uuid, holding

NOBODY = "d0d0d0d0-0000-4000-8000-00000000dead"


def listed(api: Api, *query: tuple[str, str], **filters: str) -> set[str]:
    """The names of the providers that the filters let through."""
    found = api.get("/resource_providers", [*query, *filters.items()]).expect(200)
    return {provider["name"] for provider in found.resource_providers}


class TestCreate:
    def test_a_new_provider_is_its_own_root_at_generation_0(self, api: Api) -> None:
        name = fresh_name()
        made = api.post("/resource_providers", name=name).expect(200)
        path = f"/resource_providers/{made.uuid}"
        rels = ("inventories", "usages", "aggregates", "traits", "allocations")
        assert made.json == {
            "uuid": made.uuid,
            "name": name,
            "generation": 0,
            "parent_provider_uuid": None,
            "root_provider_uuid": made.uuid,
            "links": [{"rel": "self", "href": path}, *({"rel": rel, "href": f"{path}/{rel}"} for rel in rels)],
        }
        assert api.get(path).json == made.json

    def test_the_uuid_may_be_chosen(self, api: Api) -> None:
        uuid = fresh_uuid()
        assert api.post("/resource_providers", name=fresh_name(), uuid=uuid).uuid == uuid

    @pytest.mark.parametrize("spelling", ["{hex}", "{upper}", "{{{uuid}}}", "urn:uuid:{uuid}"])
    def test_a_uuid_is_stored_in_lower_case_with_hyphens(self, api: Api, spelling: str) -> None:
        uuid = fresh_uuid()
        given = spelling.format(uuid=uuid, hex=uuid.replace("-", ""), upper=uuid.upper())
        assert api.post("/resource_providers", name=fresh_name(), uuid=given).uuid == uuid

    def test_a_child_has_the_root_of_its_parent(self, api: Api) -> None:
        root = api.create_provider()
        child = api.create_provider(parent=root)
        grandchild = api.get(api.create_provider(parent=child).path)
        assert (grandchild.parent_provider_uuid, grandchild.root_provider_uuid) == (child.uuid, root.uuid)

    def test_a_null_parent_makes_a_root(self, api: Api) -> None:
        made = api.post("/resource_providers", name=fresh_name(), parent_provider_uuid=None).expect(200)
        assert made.root_provider_uuid == made.uuid

    def test_names_are_unicode_up_to_200_characters(self, api: Api) -> None:
        name = (fresh_name("mašina-機械-🖥") + "ž" * 200)[:200]
        made = api.post("/resource_providers", name=name).expect(200)
        assert api.get(f"/resource_providers/{made.uuid}").name == name
        assert listed(api, name=name) == {name}

    def test_a_taken_name_is_refused(self, api: Api) -> None:
        host = api.create_provider()
        refused = api.post("/resource_providers", name=host.name)
        assert refused.refused(
            409, f"Conflicting resource provider name: {host.name} already exists", code=DUPLICATE_NAME
        )

    @pytest.mark.parametrize("hyphens", [True, False])
    def test_a_taken_uuid_is_refused_in_any_spelling(self, api: Api, hyphens: bool) -> None:
        host = api.create_provider()
        given = host.uuid if hyphens else host.uuid.replace("-", "")
        refused = api.post("/resource_providers", name=fresh_name(), uuid=given)
        assert refused.refused(
            409, f"Conflicting resource provider uuid: {host.uuid} already exists", code=DUPLICATE_NAME
        )

    def test_a_taken_name_and_uuid_are_refused_together(self, api: Api) -> None:
        host = api.create_provider()
        refused = api.post("/resource_providers", name=host.name, uuid=host.uuid)
        assert refused.refused(409, "Conflicting resource provider", code=DUPLICATE_NAME)

    def test_nobody_is_its_own_parent(self, api: Api) -> None:
        name, uuid = fresh_name(), fresh_uuid()
        refused = api.post("/resource_providers", name=name, uuid=uuid, parent_provider_uuid=uuid)
        assert refused.refused(
            400,
            f'Unable to create resource provider "{name}", {uuid}:',
            "parent provider UUID cannot be same as UUID",
        )

    def test_an_unknown_parent_is_refused(self, api: Api) -> None:
        refused = api.post("/resource_providers", name=fresh_name(), parent_provider_uuid=fresh_uuid())
        assert refused.refused(400, "parent provider UUID does not exist")

    @pytest.mark.parametrize("spell", [str.upper, lambda uuid: uuid.replace("-", "")], ids=["upper", "hex"])
    def test_a_parent_is_compared_as_given(self, api: Api, spell: Callable[[str], str]) -> None:
        parent = api.create_provider()
        given = spell(parent.uuid)
        refused = api.post("/resource_providers", name=fresh_name(), parent_provider_uuid=given)
        assert refused.refused(400, "parent provider UUID does not exist")

    @pytest.mark.parametrize(
        ("body", "texts"),
        [
            ({}, ["'name' is a required property", "Failed validating 'required' in schema"]),
            ({"name": ""}, []),
            ({"name": "n" * 201}, ["Failed validating 'maxLength'"]),
            ({"name": 7}, ["7 is not of type 'string'"]),
            ({"name": "n", "uuid": "nonsense"}, ["is not a 'uuid'", "Failed validating 'format'"]),
            ({"name": "n", "uuid": 7}, ["7 is not of type 'string'"]),
            ({"name": "n", "parent_provider_uuid": "nonsense"}, ["is not a 'uuid'"]),
            ({"name": "n", "colour": "red"}, ["Additional properties are not allowed", "'colour' was unexpected"]),
            ({"name": "n", "root_provider_uuid": NOBODY}, ["'root_provider_uuid' was unexpected"]),
            ({"name": "n", "generation": 0}, ["'generation' was unexpected"]),
            ([], ["[] is not of type 'object'"]),
        ],
    )
    def test_a_malformed_body_is_refused(self, api: Api, body: object, texts: list[str]) -> None:
        assert api.post("/resource_providers", body).refused(400, *texts)

    def test_the_location_is_absolute_and_links_are_not(self, api: Api) -> None:
        made = api.post("/resource_providers", name=fresh_name()).expect(200)
        location = made.header("location") or ""
        assert re.fullmatch(rf"http://[^/]+(/.+)?/resource_providers/{made.uuid}", location)
        assert made.links[0]["href"] == f"/resource_providers/{made.uuid}"


class TestShow:
    @pytest.mark.parametrize("spell", [str.upper, lambda uuid: uuid.replace("-", ""), lambda _: "nonsense"])
    def test_the_path_is_compared_as_given(self, api: Api, spell: Callable[[str], str]) -> None:
        given = spell(api.create_provider().uuid)
        assert api.get(f"/resource_providers/{given}").refused(404, f"No resource provider with uuid {given} found")

    def test_the_query_string_is_ignored(self, api: Api) -> None:
        api.get(api.create_provider().path, {"colour": "red"}).expect(200)


class TestList:
    def test_a_listed_provider_looks_like_a_shown_one(self, api: Api) -> None:
        host = api.create_provider()
        assert api.get("/resource_providers", {"uuid": host.uuid}).json == {
            "resource_providers": [api.get(host.path).json]
        }

    def test_name_is_compared_exactly(self, api: Api) -> None:
        host = api.create_provider()
        assert listed(api, name=host.name) == {host.name}
        assert listed(api, name=host.name[:-1]) == set()

    def test_an_empty_name_filters_nothing(self, api: Api) -> None:
        host = api.create_provider()
        assert listed(api, name="", uuid=host.uuid) == {host.name}

    def test_uuid_is_compared_as_stored(self, api: Api) -> None:
        host = api.create_provider()
        assert listed(api, uuid=host.uuid) == {host.name}
        assert listed(api, uuid=host.uuid.upper()) == set()
        assert listed(api, uuid=fresh_uuid()) == set()

    def test_in_tree_of_any_member_is_the_whole_tree(self, api: Api) -> None:
        root = api.create_provider()
        child = api.create_provider(parent=root)
        other = api.create_provider(parent=root)
        api.create_provider()
        for member in (root, child, other):
            assert listed(api, in_tree=member.uuid) == {root.name, child.name, other.name}
        assert listed(api, in_tree=fresh_uuid()) == set()

    def test_filters_are_anded(self, api: Api) -> None:
        rack = fresh_uuid()
        root = api.create_provider(aggregates=[rack])
        child = api.create_provider(parent=root, aggregates=[rack])
        assert listed(api, in_tree=root.uuid, member_of=rack, name=child.name) == {child.name}
        assert listed(api, in_tree=root.uuid, member_of=fresh_uuid()) == set()

    @pytest.mark.differs("it has nothing of Stead's own")
    def test_in_subtree_is_a_provider_and_all_below_it(self, api: Api) -> None:
        own = api.at(f"{NEWEST}, stead 1.0")
        root = api.create_provider()
        middle, other = api.create_provider(parent=root), api.create_provider(parent=root)
        leaf = api.create_provider(parent=middle)
        assert listed(own, in_subtree=root.uuid) == {root.name, middle.name, other.name, leaf.name}
        assert listed(own, in_subtree=f" {middle.uuid} ") == {middle.name, leaf.name}
        assert listed(own, in_subtree=leaf.uuid, in_tree=other.uuid) == {leaf.name}
        assert listed(own, ("in_subtree", leaf.uuid), ("in_subtree", other.uuid)) == {other.name}
        assert listed(own, in_subtree=fresh_uuid()) == set()

    @pytest.mark.differs("it has nothing of Stead's own")
    def test_in_subtree_must_be_a_uuid(self, api: Api) -> None:
        own = api.at(f"{NEWEST}, stead 1.0")
        for query in ({"in_subtree": "xyz"}, [("in_subtree", "xyz"), ("in_subtree", fresh_uuid())]):
            refused = own.get("/resource_providers", query).expect(400)
            assert "Expected 'in_subtree' parameter to be a format of uuid. Got: xyz" in refused.error.detail
            assert refused.error.code == "placement.query.bad_value"

    @pytest.mark.parametrize("version", ["1.18", NEWEST, "latest"])
    def test_in_subtree_is_an_unknown_key_to_who_does_not_ask_for_stead(self, api: Api, version: str) -> None:
        refused = api.at(version).get("/resource_providers", {"in_subtree": fresh_uuid()}).expect(400)
        assert "('in_subtree' was unexpected)" in refused.error.detail

    @pytest.mark.parametrize("key", ["name", "uuid", "in_tree", "resources"])
    def test_a_repeated_key_counts_once_with_its_last_value(self, api: Api, key: str) -> None:
        host = api.create_provider(inventories={"VCPU": 4})
        wrong, right = {
            "name": ("nobody-is-called-this", host.name),
            "uuid": (NOBODY, host.uuid),
            "in_tree": (NOBODY, host.uuid),
            "resources": ("VCPU:1000000000", "VCPU:1"),
        }[key]
        assert host.name in listed(api, (key, wrong), (key, right))
        assert host.name not in listed(api, (key, right), (key, wrong))

    @pytest.mark.parametrize(
        ("query", "texts"),
        [
            ({"uuid": "nonsense"}, []),
            ({"uuid": NOBODY.replace("-", "")}, []),
            ({"uuid": ""}, []),
            ({"in_tree": "nonsense"}, []),
            ({"colour": "red"}, ["Additional properties are not allowed", "'colour' was unexpected"]),
            ({"required1": "HW_CPU_X86_SHA"}, ["Additional properties are not allowed"]),
            ({"limit": "1"}, ["'limit' was unexpected"]),
        ],
    )
    def test_a_malformed_query_is_refused(self, api: Api, query: dict[str, str], texts: list[str]) -> None:
        assert api.get("/resource_providers", query).refused(400, "Invalid query string parameters", *texts)


class TestListByResources:
    def test_there_must_be_room_for_every_amount(self, api: Api) -> None:
        lamp, rope = api.create_class(), api.create_class("ROPE")
        both = api.create_provider(inventories={lamp: 4, rope: 9})
        lamps = api.create_provider(inventories={lamp: 4})
        assert listed(api, resources=f"{lamp}:4") == {both.name, lamps.name}
        assert listed(api, resources=f"{lamp}:5") == set()
        assert listed(api, resources=f"{lamp}:1,{rope}:9") == {both.name}

    def test_room_counts_use_reserve_and_ratio(self, api: Api) -> None:
        lamp = api.create_class()
        host = api.create_provider(inventories={lamp: {"total": 10, "reserved": 2, "allocation_ratio": 2.0}})
        api.claim((host, {lamp: 6}))
        assert listed(api, resources=f"{lamp}:10") == {host.name}
        assert listed(api, resources=f"{lamp}:11") == set()

    def test_an_amount_obeys_min_max_and_step(self, api: Api) -> None:
        lamp = api.create_class()
        host = api.create_provider(inventories={lamp: {"total": 30, "min_unit": 4, "max_unit": 12, "step_size": 4}})
        fitting = [n for n in range(1, 20) if listed(api, resources=f"{lamp}:{n}")]
        assert fitting == [4, 8, 12]
        assert listed(api, resources=f"{lamp}:4") == {host.name}

    def test_neither_trees_nor_sharing_help(self, api: Api) -> None:
        lamp, rack = api.create_class(), fresh_uuid()
        root = api.create_provider(inventories={lamp: 2}, aggregates=[rack])
        child = api.create_provider(parent=root, inventories={lamp: 5})
        pool = api.create_provider(inventories={lamp: 9}, aggregates=[rack], traits=["MISC_SHARES_VIA_AGGREGATE"])
        assert listed(api, resources=f"{lamp}:3") == {child.name, pool.name}

    @pytest.mark.parametrize("amount", [" 1", "1 ", "+1", "0_1", "01"])
    def test_an_amount_is_read_as_python_reads_integers(self, api: Api, amount: str) -> None:
        host = api.create_provider(inventories={"VCPU": 1})
        assert listed(api, resources=f"VCPU:{amount}", uuid=host.uuid) == {host.name}

    def test_the_last_amount_of_a_repeated_class_counts(self, api: Api) -> None:
        lamp = api.create_class()
        host = api.create_provider(inventories={lamp: 4})
        assert listed(api, resources=f"{lamp}:9,{lamp}:4") == {host.name}
        assert listed(api, resources=f"{lamp}:4,{lamp}:9") == set()

    @pytest.mark.parametrize(
        ("value", "texts"),
        [
            (
                "",
                [
                    "Badly formed resources parameter. Expected resources query string parameter in form",
                    "Got: empty string.",
                ],
            ),
            ("VCPU", ["Badly formed resources parameter.", "Got: VCPU."]),
            ("VCPU:1,", ["Badly formed resources parameter.", "Got: ."]),
            ("VCPU:1:2", ["Badly formed resources parameter.", "Got: VCPU:1:2."]),
            ("VCPU:one", ["Requested resource VCPU expected positive integer amount.", "Got: one."]),
            ("VCPU:", ["Requested resource VCPU expected positive integer amount.", "Got: ."]),
            ("VCPU:1.5", ["Requested resource VCPU expected positive integer amount.", "Got: 1.5."]),
            ("VCPU:0", ["Requested resource VCPU requires amount >= 1.", "Got: 0."]),
            ("VCPU:-3", ["Requested resource VCPU requires amount >= 1.", "Got: -3."]),
            (
                "CUSTOM_NOBODY_MADE_THIS:1",
                ["Invalid resource class in resources parameter", "No such resource class CUSTOM_NOBODY_MADE_THIS"],
            ),
        ],
    )
    def test_a_malformed_value_is_refused(self, api: Api, value: str, texts: list[str]) -> None:
        assert api.get("/resource_providers", {"resources": value}).refused(400, *texts)


class TestListByAggregate:
    @pytest.fixture
    def racks(self) -> tuple[str, str, str]:
        return fresh_uuid(), fresh_uuid(), fresh_uuid()

    @pytest.fixture
    def hosts(self, api: Api, racks: tuple[str, str, str]) -> dict[str, Provider]:
        """A tree whose members are in the racks of their names: a, ab, b, and none of them."""
        a, b, _ = racks
        root = api.create_provider()
        members = {"a": [a], "ab": [a, b], "b": [b]}
        return {"": root} | {name: api.create_provider(parent=root, aggregates=of) for name, of in members.items()}

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (["{a}"], {"a", "ab"}),
            (["in:{a}"], {"a", "ab"}),
            (["in:{a},{b}"], {"a", "ab", "b"}),
            (["{a}", "{b}"], {"ab"}),
            (["in:{a},{b}", "{b}"], {"ab", "b"}),
            (["!{a}"], {"", "b"}),
            (["!in:{a},{b}"], {""}),
            (["!{a}", "!{b}"], {""}),
            (["in:{a},{b}", "!{a}"], {"b"}),
            (["{a}", "!{a}"], set()),
            (["{b}", "!{a}"], {"b"}),
            (["{nowhere}"], set()),
            (["in:{nowhere},{b}"], {"ab", "b"}),
            (["!{nowhere}"], {"", "a", "ab", "b"}),
        ],
    )
    def test_member_of(
        self, api: Api, hosts: dict[str, Provider], racks: tuple[str, str, str], values: list[str], expected: set[str]
    ) -> None:
        a, b, nowhere = racks
        query = [("member_of", value.format(a=a, b=b, nowhere=nowhere)) for value in values]
        found = listed(api, ("in_tree", hosts[""].uuid), *query)
        assert found == {hosts[name].name for name in expected}

    @pytest.mark.parametrize(
        ("value", "text"),
        [
            (f"{NOBODY},{NOBODY}", "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword"),
            (
                f"!{NOBODY},{NOBODY}",
                "Multiple values for 'member_of' must be prefixed with the 'in:' or '!in:' keyword",
            ),
            ("nonsense", "Expected 'member_of' parameter to contain valid UUID(s)."),
            ("", "Expected 'member_of' parameter to contain valid UUID(s)."),
            ("in:", "Expected 'member_of' parameter to contain valid UUID(s)."),
            (f"in:{NOBODY},", "Expected 'member_of' parameter to contain valid UUID(s)."),
            (f"in:{NOBODY},!{NOBODY}", "Expected 'member_of' parameter to contain valid UUID(s)."),
            (f"!!{NOBODY}", "Expected 'member_of' parameter to contain valid UUID(s)."),
            ("!", "Expected 'member_of' parameter to contain valid UUID(s)."),
        ],
    )
    def test_a_malformed_value_is_refused(self, api: Api, value: str, text: str) -> None:
        assert api.get("/resource_providers", {"member_of": value}).refused(400, text)


class TestListByTrait:
    @pytest.fixture
    def names(self, api: Api) -> tuple[str, str, str]:
        return api.create_trait("A"), api.create_trait("B"), api.create_trait("NEVER")

    @pytest.fixture
    def hosts(self, api: Api, names: tuple[str, str, str]) -> dict[str, Provider]:
        a, b, _ = names
        root = api.create_provider()
        members = {"a": [a], "ab": [a, b], "b": [b]}
        return {"": root} | {name: api.create_provider(parent=root, traits=of) for name, of in members.items()}

    @pytest.mark.parametrize(
        ("values", "expected"),
        [
            (["{a}"], {"a", "ab"}),
            (["{a},{b}"], {"ab"}),
            (["{a}", "{b}"], {"ab"}),
            ([" {a} , {b} "], {"ab"}),
            (["!{a}"], {"", "b"}),
            (["!{a},!{b}"], {""}),
            (["!{a}", "!{b}"], {""}),
            (["{a},!{b}"], {"a"}),
            (["in:{a},{b}"], {"a", "ab", "b"}),
            (["in:{a},{b}", "!{a}"], {"b"}),
            (["in:{a},{b}", "in:{b},{c}"], {"ab", "b"}),
            (["in:{a},{b}", "{b}"], {"ab", "b"}),
            (["{c}"], set()),
            (["!{c}"], {"", "a", "ab", "b"}),
        ],
    )
    def test_required(
        self, api: Api, hosts: dict[str, Provider], names: tuple[str, str, str], values: list[str], expected: set[str]
    ) -> None:
        a, b, c = names
        query = [("required", value.format(a=a, b=b, c=c)) for value in values]
        found = listed(api, ("in_tree", hosts[""].uuid), *query)
        assert found == {hosts[name].name for name in expected}

    FORM = "Expected 'required' parameter value of the form: HW_CPU_X86_VMX,!CUSTOM_MAGIC."

    @pytest.mark.parametrize(
        ("value", "texts"),
        [
            ("", ["Invalid query string parameters:", FORM]),
            ("HW_CPU_X86_SHA,", [FORM]),
            ("in:", []),
            ("in:HW_CPU_X86_SHA,", []),
            ("in:HW_CPU_X86_SHA,!HW_CPU_X86_SSE", ["does not support forbidden traits"]),
            ("CUSTOM_NOBODY_MADE_THIS", ["No such trait(s): CUSTOM_NOBODY_MADE_THIS."]),
            ("!CUSTOM_NOBODY_MADE_THIS", ["No such trait(s): CUSTOM_NOBODY_MADE_THIS."]),
            ("in:HW_CPU_X86_SHA,CUSTOM_NOBODY_MADE_THIS", ["No such trait(s): CUSTOM_NOBODY_MADE_THIS."]),
        ],
    )
    def test_a_malformed_value_is_refused(self, api: Api, value: str, texts: list[str]) -> None:
        assert api.get("/resource_providers", {"required": value}).refused(400, *texts)

    @pytest.mark.differs("it drops every leading exclamation mark")
    def test_a_second_exclamation_mark_is_refused(self, api: Api) -> None:
        assert api.get("/resource_providers", {"required": "!!HW_CPU_X86_SHA"}).refused(400)

    @pytest.mark.differs("it lists nobody")
    @pytest.mark.parametrize(
        ("minor", "values", "named"),
        [
            (22, ["HW_CPU_X86_SHA,!HW_CPU_X86_SHA"], "HW_CPU_X86_SHA"),
            (39, ["!HW_CPU_X86_SHA,HW_CPU_X86_SSE,HW_CPU_X86_SHA"], "HW_CPU_X86_SHA"),
            (39, ["HW_CPU_X86_SHA", "!HW_CPU_X86_SHA"], "HW_CPU_X86_SHA"),
            (39, ["in:HW_CPU_X86_SHA", "!HW_CPU_X86_SHA,!HW_CPU_X86_SSE"], "HW_CPU_X86_SHA"),
            (39, ["CUSTOM_NOBODY_MADE_THIS,!CUSTOM_NOBODY_MADE_THIS"], "CUSTOM_NOBODY_MADE_THIS"),
        ],
    )
    def test_a_trait_both_required_and_forbidden_is_refused(
        self, api: Api, minor: int, values: list[str], named: str
    ) -> None:
        text = f"\n Conflicting required and forbidden traits found in the following traits keys: required: ({named})  "
        refused = api.at(f"1.{minor}").get("/resource_providers", [("required", value) for value in values])
        assert refused.refused(400, text, code=UNDEFINED if minor >= 23 else None)

    def test_any_of_some_traits_may_lose_one_to_those_forbidden(self, api: Api) -> None:
        host = api.create_provider(traits=["HW_CPU_X86_SSE"])
        values = [("required", "in:HW_CPU_X86_SHA,HW_CPU_X86_SSE"), ("required", "!HW_CPU_X86_SHA")]
        assert listed(api, ("in_tree", host.uuid), *values) == {host.name}

    def test_only_the_last_required_counts_before_it_may_be_repeated(self, api: Api) -> None:
        values = [("required", "!HW_CPU_X86_SHA"), ("required", "HW_CPU_X86_SHA")]
        assert api.at("1.38").get("/resource_providers", values).expect(200)


NOBODY = "5e1f5e1f-0000-4000-8000-00000000dead"


class TestOrderOfFilterChecks:
    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ({"required": "CUSTOM_NOBODY"}, "No such trait(s): CUSTOM_NOBODY."),
            ({"required": "!CUSTOM_NOBODY"}, "No such trait(s): CUSTOM_NOBODY."),
            ({"resources": "CUSTOM_NOBODY:1"}, "No such resource class CUSTOM_NOBODY."),
            ({"resources": "CUSTOM_NOBODY:1", "member_of": f"!{NOBODY}"}, "No such resource class CUSTOM_NOBODY."),
            ({"resources": "CUSTOM_NOBODY:1", "member_of": NOBODY}, None),
            ({"required": "HW_CPU_X86_SHA,!CUSTOM_NOBODY"}, None),
            ({}, None),
        ],
    )
    @pytest.mark.one_database
    def test_unknown_names_are_refused_while_no_provider_exists(
        self, empty_api: Api, query: dict[str, str], text: str | None
    ) -> None:
        answer = empty_api.get("/resource_providers", query)
        if text is None:
            assert answer.expect(200).resource_providers == []
        else:
            assert answer.refused(400, text)

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            ({"resources": "VCPU", "required": "", "member_of": "nonsense"}, "member_of"),
            ({"resources": "VCPU", "required": ""}, "required"),
            ({"resources": "VCPU:none", "required": "CUSTOM_NOBODY_MADE_THIS"}, "expected positive integer amount"),
            ({"resources": "VCPU:none", "required": "CUSTOM_A,!CUSTOM_A"}, "expected positive integer amount"),
        ],
    )
    def test_values_are_checked_before_any_lookup(self, api: Api, query: dict[str, str], text: str) -> None:
        assert api.get("/resource_providers", query).refused(400, text)

    @pytest.mark.parametrize(
        ("earlier", "later"),
        [
            ({"in_tree": NOBODY}, {"required": "CUSTOM_NOBODY_MADE_THIS"}),
            ({"in_tree": NOBODY}, {"resources": "CUSTOM_NOBODY_MADE_THIS:1"}),
            ({"member_of": NOBODY}, {"resources": "CUSTOM_NOBODY_MADE_THIS:1"}),
        ],
    )
    def test_a_filter_that_matches_nothing_ends_the_lookups(
        self, api: Api, earlier: dict[str, str], later: dict[str, str]
    ) -> None:
        assert listed(api, **earlier, **later) == set()
        api.get("/resource_providers", later).expect(400)


class TestUpdate:
    def test_a_rename_keeps_the_generation(self, api: Api) -> None:
        host, name = api.create_provider(inventories={"VCPU": 1}), fresh_name()
        renamed = api.put(host.path, name=name).expect(200)
        assert (renamed.name, renamed.generation, renamed.header("location")) == (name, 1, None)
        assert api.get(host.path).json == renamed.json

    def test_the_own_name_may_be_set_again(self, api: Api) -> None:
        host = api.create_provider()
        api.put(host.path, name=host.name).expect(200)

    def test_a_taken_name_is_refused(self, api: Api) -> None:
        host, other = api.create_provider(), api.create_provider()
        refused = api.put(host.path, name=other.name)
        assert refused.refused(409, f"Conflicting resource provider {other.name} already exists", code=DUPLICATE_NAME)
        assert api.get(host.path).name == host.name

    def test_without_a_parent_in_the_body_the_parent_stays(self, api: Api) -> None:
        root = api.create_provider()
        child = api.create_provider(parent=root)
        assert api.put(child.path, name=fresh_name()).parent_provider_uuid == root.uuid

    def test_a_subtree_moves_with_its_top_and_no_generation_changes(self, api: Api) -> None:
        old, new = api.create_provider(), api.create_provider()
        moved = api.create_provider(parent=old)
        leaf = api.create_provider(parent=moved)
        answer = api.put(moved.path, name=moved.name, parent_provider_uuid=new.uuid).expect(200)
        assert (answer.parent_provider_uuid, answer.root_provider_uuid) == (new.uuid, new.uuid)
        assert api.get(leaf.path).root_provider_uuid == new.uuid
        assert listed(api, in_tree=old.uuid) == {old.name}
        assert [api.generation(provider) for provider in (old, new, moved, leaf)] == [0, 0, 0, 0]

    def test_a_child_becomes_a_root(self, api: Api) -> None:
        child = api.create_provider(parent=api.create_provider())
        leaf = api.create_provider(parent=child)
        answer = api.put(child.path, name=child.name, parent_provider_uuid=None).expect(200)
        assert (answer.parent_provider_uuid, answer.root_provider_uuid) == (None, child.uuid)
        assert api.get(leaf.path).root_provider_uuid == child.uuid

    def test_a_root_moves_under_another_tree(self, api: Api) -> None:
        root, other = api.create_provider(), api.create_provider()
        assert api.put(root.path, name=root.name, parent_provider_uuid=other.uuid).root_provider_uuid == other.uuid

    def test_the_same_parent_and_a_root_s_null_parent_change_nothing(self, api: Api) -> None:
        root = api.create_provider()
        child = api.create_provider(parent=root)
        assert api.put(root.path, name=root.name, parent_provider_uuid=None).root_provider_uuid == root.uuid
        assert api.put(child.path, name=child.name, parent_provider_uuid=root.uuid).root_provider_uuid == root.uuid

    @pytest.mark.parametrize("depth", [0, 1, 2])
    def test_a_loop_is_refused(self, api: Api, depth: int) -> None:
        line = [api.create_provider()]
        for _ in range(2):
            line.append(api.create_provider(parent=line[-1]))
        refused = api.put(line[0].path, name=line[0].name, parent_provider_uuid=line[depth].uuid)
        assert refused.refused(
            400,
            f"Unable to save resource provider {line[0].uuid}:",
            "creating loop in the provider tree is not allowed.",
        )
        assert api.get(line[0].path).parent_provider_uuid is None

    def test_an_unknown_parent_is_refused(self, api: Api) -> None:
        host = api.create_provider()
        refused = api.put(host.path, name=host.name, parent_provider_uuid=fresh_uuid())
        assert refused.refused(400, "parent provider UUID does not exist")

    @pytest.mark.parametrize(
        ("body", "texts"),
        [
            ({}, ["'name' is a required property"]),
            ({"parent_provider_uuid": NOBODY}, ["'name' is a required property"]),
            ({"name": "n" * 201}, ["Failed validating 'maxLength'"]),
            ({"name": None}, ["None is not of type 'string'"]),
            ({"name": "n", "uuid": NOBODY}, ["Additional properties are not allowed"]),
            ({"name": "n", "root_provider_uuid": NOBODY}, ["Additional properties are not allowed"]),
            ({"name": "n", "generation": 3}, ["Additional properties are not allowed"]),
            ({"name": "n", "parent_provider_uuid": "nonsense"}, ["is not a 'uuid'"]),
        ],
    )
    def test_a_malformed_body_is_refused(self, api: Api, body: object, texts: list[str]) -> None:
        host = api.create_provider()
        assert api.put(host.path, body).refused(400, "JSON does not validate", *texts)
        assert api.get(host.path).name == host.name

    def test_an_unknown_provider_is_404_even_with_a_malformed_body(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.put(f"/resource_providers/{uuid}", {"colour": "red"})
        assert refused.refused(404, f"No resource provider with uuid {uuid} found")

    def test_an_empty_name_is_accepted_here(self, empty_api: Api) -> None:
        host = empty_api.create_provider()
        assert empty_api.put(host.path, name="").expect(200).name == ""


class TestDelete:
    def test_a_deleted_provider_is_gone_with_its_inventory(self, api: Api) -> None:
        trait, rack = api.create_trait(), fresh_uuid()
        host = api.create_provider(inventories={"VCPU": 2}, traits=[trait], aggregates=[rack])
        api.delete(host.path).expect(204)
        for path in (host.path, host.inventories, host.usages, host.aggregates, host.traits, host.allocations):
            assert api.get(path).refused(404, f"No resource provider with uuid {host.uuid} found")
        assert listed(api, name=host.name) == set()
        assert listed(api, member_of=rack) == set()
        api.delete(f"/traits/{trait}").expect(204)

    def test_its_name_and_uuid_may_be_used_again_and_start_empty(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 2}, traits=["HW_CPU_X86_SHA"], aggregates=[fresh_uuid()])
        api.delete(host.path).expect(204)
        assert api.post("/resource_providers", name=host.name, uuid=host.uuid).expect(200).generation == 0
        assert api.get(host.inventories).inventories == {}
        assert api.get(host.traits).traits == []
        assert api.get(host.aggregates).aggregates == []

    def test_an_unknown_provider_is_404(self, api: Api) -> None:
        uuid = fresh_uuid()
        refused = api.delete(f"/resource_providers/{uuid}")
        assert refused.refused(404, f"No resource provider with uuid {uuid} found for delete")

    @pytest.mark.parametrize(("method", "end"), [("GET", "found"), ("DELETE", "found for delete")])
    def test_the_end_of_the_text_tells_what_the_provider_was_wanted_for(self, api: Api, method: str, end: str) -> None:
        detail = api.call(method, f"/resource_providers/{NOBODY}").expect(404).error.detail
        assert detail.strip().endswith(f"No resource provider with uuid {NOBODY} {end}")

    def test_a_parent_stays_while_it_has_children(self, api: Api) -> None:
        root = api.create_provider()
        child = api.create_provider(parent=root)
        assert api.delete(root.path).refused(
            409,
            f"Unable to delete parent resource provider {root.uuid}: It has child resource providers.",
            code="placement.resource_provider.cannot_delete_parent",
        )
        api.delete(child.path).expect(204)
        api.delete(root.path).expect(204)

    def test_a_provider_stays_while_it_has_allocations(self, api: Api) -> None:
        host = api.create_provider(inventories={"VCPU": 2})
        consumer = api.claim((host, {"VCPU": 1}))
        assert api.delete(host.path).refused(
            409,
            f"Unable to delete resource provider {host.uuid}: Resource provider has allocations.",
            code="placement.resource_provider.inuse",
        )
        api.delete(f"/allocations/{consumer}").expect(204)
        api.delete(host.path).expect(204)

    def test_children_are_spoken_of_before_allocations(self, api: Api) -> None:
        root = api.create_provider(inventories={"VCPU": 2})
        api.create_provider(parent=root)
        api.put(f"/allocations/{fresh_uuid()}", holding((root, {"VCPU": 1}))).expect(204)
        assert api.delete(root.path).refused(409, code="placement.resource_provider.cannot_delete_parent")


@pytest.mark.parametrize("segment", ["é", "%FF%FE", "a%20b", "%00", quote("機械")])
def test_an_odd_path_segment_is_no_provider(api: Api, segment: str) -> None:
    api.get(f"/resource_providers/{segment if segment.isascii() else quote(segment)}").expect(404)
