"""``/traits``, ``/traits/{name}`` and ``/resource_providers/{uuid}/traits``."""

from typing import Any

import os_traits
import pytest

from tests.system.api.client import CONCURRENT_UPDATE, Api, fresh_custom, fresh_uuid

INVALID = (
    'The trait is invalid. A valid trait must be no longer than 255 characters, start with the prefix "CUSTOM_" '
    'and use following characters: "A"-"Z", "0"-"9" and "_"'
)


def names(api: Api, **query: str) -> set[str]:
    return set(api.get("/traits", query).expect(200).traits)


class TestList:
    def test_standard_and_custom_traits_are_listed(self, api: Api) -> None:
        made = api.create_trait()
        found = names(api)
        assert {"MISC_SHARES_VIA_AGGREGATE", "HW_CPU_X86_SHA", made} <= found
        assert len(found - {name for name in found if name.startswith("CUSTOM_")}) >= len(os_traits.get_traits())

    def test_in_lists_those_that_exist(self, api: Api) -> None:
        made = api.create_trait()
        asked = f"in:{made},HW_CPU_X86_SHA,CUSTOM_NOBODY_MADE_THIS"
        assert names(api, name=asked) == {made, "HW_CPU_X86_SHA"}

    def test_startswith_lists_by_prefix(self, api: Api) -> None:
        made = api.create_trait("PREFIX")
        assert names(api, name=f"startswith:{made[:-3]}") == {made}
        assert "HW_CPU_X86_SHA" in names(api, name="startswith:HW_CPU")
        assert names(api, name="startswith:CUSTOM_NOBODY_MADE_THIS") == set()

    def test_associated_tells_whether_any_provider_has_it(self, api: Api) -> None:
        used, unused = api.create_trait(), api.create_trait()
        api.create_provider(traits=[used])
        both = f"in:{used},{unused}"
        assert names(api, associated="true", name=both) == {used}
        assert names(api, associated="False", name=both) == {unused}

    def test_a_trait_is_associated_until_the_last_provider_lost_it(self, api: Api) -> None:
        trait = api.create_trait()
        first, second = api.create_provider(traits=[trait]), api.create_provider(traits=[trait])
        api.delete(first.traits).expect(204)
        assert names(api, associated="true", name=f"in:{trait}") == {trait}
        api.delete(second.path).expect(204)
        assert names(api, associated="true", name=f"in:{trait}") == set()

    def test_an_unknown_operator_filters_nothing(self, api: Api) -> None:
        assert "HW_CPU_X86_SHA" in names(api, name="nonsense:XX")

    @pytest.mark.parametrize(
        ("query", "text"),
        [
            (
                {"name": "xx_y"},
                "Badly formatted name parameter. Expected name query string parameter in form: "
                '?name=[in|startswith]:[name1,name2|prefix]. Got: "xx_y"',
            ),
            ({"name": ""}, 'Got: ""'),
            ({"associated": "xyz"}, 'The query parameter "associated" only accepts "true" or "false"'),
            ({"associated": ""}, 'The query parameter "associated" only accepts "true" or "false"'),
            ({"colour": "red"}, "Invalid query string parameters: Additional properties are not allowed"),
        ],
    )
    def test_a_malformed_query_is_refused(self, api: Api, query: dict[str, str], text: str) -> None:
        assert api.get("/traits", query).refused(400, text)


class TestOne:
    def test_an_existing_trait_answers_204(self, api: Api) -> None:
        for name in (api.create_trait(), "HW_CPU_X86_SHA"):
            api.get(f"/traits/{name}").expect(204)

    @pytest.mark.parametrize("name", ["CUSTOM_NOBODY_MADE_THIS", "NOBODY_MADE_THIS"])
    def test_an_unknown_trait_is_404(self, api: Api, name: str) -> None:
        assert api.get(f"/traits/{name}").refused(404, f"No such trait(s): {name}.")
        assert api.delete(f"/traits/{name}").refused(404, f"No such trait(s): {name}.")

    def test_a_trait_is_made_once(self, api: Api) -> None:
        name = fresh_custom("MAGIC")
        for expected in (201, 204):
            answer = api.put(f"/traits/{name}").expect(expected)
            assert (answer.body, answer.header("content-type")) == (b"", None)
            assert (answer.header("location") or "").endswith(f"/traits/{name}")

    def test_body_and_types_are_ignored(self, api: Api) -> None:
        headers = {"Content-Type": "text/plain", "Accept": "text/plain"}
        path = f"/traits/{fresh_custom()}"
        api.call("PUT", path, raw=b"{", headers=headers).expect(201)
        api.get(path, headers={"Accept": "text/plain"}).expect(204)

    @pytest.mark.parametrize(
        "name", ["HW_CPU_X86_SHA", "LAMP", "CUSTOM_", "CUSTOM_lamp", "CUSTOM_A-B", "CUSTOM_%20", "CUSTOM_" + "A" * 249]
    )
    def test_a_name_that_is_not_custom_is_refused(self, api: Api, name: str) -> None:
        assert api.put(f"/traits/{name}").refused(400, INVALID)

    def test_a_deleted_trait_is_gone_and_may_be_made_again(self, api: Api) -> None:
        name = api.create_trait()
        api.delete(f"/traits/{name}").expect(204)
        api.get(f"/traits/{name}").expect(404)
        assert names(api, name=f"in:{name}") == set()
        api.put(f"/traits/{name}").expect(201)

    def test_a_standard_trait_stays(self, api: Api) -> None:
        assert api.delete("/traits/HW_CPU_X86_SHA").refused(400, "Cannot delete standard trait")

    def test_a_trait_of_a_provider_stays(self, api: Api) -> None:
        name = api.create_trait()
        host = api.create_provider(traits=[name])
        assert api.delete(f"/traits/{name}").refused(409, f"The trait {name} is in use by a resource provider.")
        api.delete(host.traits).expect(204)
        api.delete(f"/traits/{name}").expect(204)

    def test_a_trait_made_after_another_was_deleted_is_on_nobody(self, api: Api) -> None:
        gone, host = api.create_trait(), api.create_provider()
        api.put(host.traits, traits=[gone], generation=0).expect(200)
        api.delete(host.traits).expect(204)
        api.delete(f"/traits/{gone}").expect(204)
        new = api.create_trait()
        assert names(api, associated="true", name=f"in:{new}") == set()
        assert api.get("/resource_providers", {"required": new}).resource_providers == []


class TestOfProvider:
    def test_a_new_provider_has_none(self, api: Api) -> None:
        host = api.create_provider()
        assert api.get(host.traits).json == {"resource_provider_generation": 0, "traits": []}

    def test_the_new_set_replaces_the_old(self, api: Api) -> None:
        left, kept = api.create_trait(), api.create_trait()
        host = api.create_provider(traits=[left, kept])
        replaced = api.put(host.traits, traits=[kept, "HW_CPU_X86_SHA"], generation=1).expect(200)
        assert (set(replaced.traits), replaced.generation) == ({kept, "HW_CPU_X86_SHA"}, 2)
        shown = api.get(host.traits)
        assert (set(shown.traits), shown.generation) == ({kept, "HW_CPU_X86_SHA"}, 2)

    def test_the_generation_rises_only_with_a_change(self, api: Api) -> None:
        host = api.create_provider()
        wanted = ["HW_CPU_X86_SHA", "HW_CPU_X86_SSE"]
        steps = [(wanted, 1), (wanted[::-1], 1), (wanted[:1], 2), ([], 3), ([], 3)]
        for traits, expected in steps:
            generation = api.generation(host)
            assert api.put(host.traits, traits=traits, generation=generation).generation == expected
            assert api.generation(host) == expected

    def test_deleting_raises_the_generation_only_if_there_were_some(self, api: Api) -> None:
        host = api.create_provider(traits=["HW_CPU_X86_SHA"])
        for _ in range(2):
            api.delete(host.traits).expect(204)
            assert api.get(host.traits).json == {"resource_provider_generation": 2, "traits": []}

    def test_repeats_collapse(self, api: Api) -> None:
        host = api.create_provider()
        answer = api.put(host.traits, traits=["HW_CPU_X86_SHA"] * 3, generation=0).expect(200)
        assert answer.traits == ["HW_CPU_X86_SHA"]

    def test_a_stale_generation_changes_nothing(self, api: Api) -> None:
        host = api.create_provider(traits=["HW_CPU_X86_SHA"])
        assert api.put(host.traits, traits=[], generation=0).refused(
            409,
            "Resource provider's generation already changed. Please update the generation and try again.",
            code=CONCURRENT_UPDATE,
        )
        assert api.get(host.traits).traits == ["HW_CPU_X86_SHA"]

    def test_unknown_traits_are_all_named(self, api: Api) -> None:
        host = api.create_provider(traits=["HW_CPU_X86_SHA"])
        unknown = ["CUSTOM_NOBODY_MADE_THIS", "CUSTOM_NOR_THIS"]
        refused = api.put(host.traits, traits=["HW_CPU_X86_SSE", *unknown], generation=1)
        assert refused.refused(400, "No such trait", *unknown)
        assert api.get(host.traits).json == {"resource_provider_generation": 1, "traits": ["HW_CPU_X86_SHA"]}

    @pytest.mark.parametrize(
        ("body", "texts"),
        [
            ({"traits": []}, ["'resource_provider_generation' is a required property"]),
            ({"resource_provider_generation": 0}, ["'traits' is a required property"]),
            ({"traits": "invalid_type", "resource_provider_generation": 0}, ["'invalid_type' is not of type 'array'"]),
            ({"traits": [7], "resource_provider_generation": 0}, ["7 is not of type 'string'"]),
            ({"traits": [""], "resource_provider_generation": 0}, []),
            ({"traits": ["A" * 256], "resource_provider_generation": 0}, ["Failed validating 'maxLength'"]),
            ({"traits": [], "resource_provider_generation": "0"}, ["'0' is not of type 'integer'"]),
            ({"traits": [], "resource_provider_generation": 0, "colour": "red"}, ["'colour' was unexpected"]),
        ],
    )
    def test_a_malformed_body_is_refused_for_any_provider(self, api: Api, body: Any, texts: list[str]) -> None:
        for uuid in (api.create_provider().uuid, fresh_uuid()):
            refused = api.put(f"/resource_providers/{uuid}/traits", body)
            assert refused.refused(400, "JSON does not validate", *texts)

    @pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
    def test_an_unknown_provider_is_404(self, api: Api, method: str) -> None:
        uuid = fresh_uuid()
        body = {"traits": [], "resource_provider_generation": 0} if method == "PUT" else None
        refused = api.call(method, f"/resource_providers/{uuid}/traits", body)
        assert refused.refused(404, f"No resource provider with uuid {uuid} found")
