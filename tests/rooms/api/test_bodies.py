"""What is said of a malformed body. Source: "Form of the validation messages", docs/api.md."""

import pytest

from stead.api.bodies import (
    ALL_INVENTORIES,
    ALLOCATIONS,
    CONSUMER_CHANGES,
    UUID_KEY,
    Validator,
    build_wanted,
    consumer,
    consumers,
    mapping,
    strict_object,
)
from stead.api.versions import V
from stead.domain.claim import UNCHECKED, Claim

A, B = "4e8e5957-649f-477b-9e5b-f1f75b21c03c", "aaaaaaaa-649f-477b-9e5b-f1f75b21c03c"
ITEM = strict_object(
    {"n": {"type": "integer", "minimum": 1}},
    {"ids": {"type": "array", "items": {"type": "string", "format": "uuid"}, "uniqueItems": True}},
)


def fault(schema, value):
    return Validator(schema).best_fault(value)


@pytest.mark.parametrize(
    ("value", "sentence", "keyword"),
    [
        ({}, "'n' is a required property", "Failed validating 'required' in schema:"),
        ({"n": 0}, "0 is less than the minimum of 1", "Failed validating 'minimum' in schema['properties']['n']:"),
        ({"n": "beta"}, "'beta' is not of type 'integer'", "Failed validating 'type'"),
        ({"n": True}, "True is not of type 'integer'", "Failed validating 'type'"),
        ({"n": 10.5}, "10.5 is not of type 'integer'", "Failed validating 'type'"),
        ({"n": None}, "None is not of type 'integer'", "Failed validating 'type'"),
        (
            {"n": 1, "colour": 2},
            "Additional properties are not allowed ('colour' was unexpected)",
            "'additionalProperties'",
        ),
        (
            {"n": 1, "ids": [A[:-1]]},
            "is not a 'uuid'",
            "Failed validating 'format' in schema['properties']['ids']['items']",
        ),
        ({"n": 1, "ids": [A] * 2}, "has non-unique elements", "Failed validating 'uniqueItems'"),
        ([], "[] is not of type 'object'", "Failed validating 'type' in schema:"),
    ],
)
def test_the_words_are_jsonschema_s(value, sentence, keyword):
    words = fault(ITEM, value)
    assert words.startswith(sentence) or sentence in words
    assert keyword in words
    assert "\n" not in words


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"properties": {"name": {"maxLength": "long"}}}])
def test_a_schema_that_is_none_is_refused_when_it_is_compiled(schema):
    with pytest.raises(ValueError, match="is not"):
        Validator(schema)


def test_what_is_nearest_to_the_root_is_told():
    assert fault(strict_object({"a": ITEM, "b": ITEM}), {"a": {"n": 0}}).startswith("'b' is a required property")


def test_a_whole_number_may_be_written_with_a_point():
    assert fault(ITEM, {"n": 10.0}) is None


def test_a_huge_body_that_is_wrong_everywhere_is_refused_in_few_words():
    many = {f"{n:08x}-{'0' * 27}": {"colour": "red"} for n in range(200_000)}
    words = fault(consumers(V.CONSUMER_TYPES), many)
    assert len(words) < 10_000


def test_uniqueness_is_judged_among_things_that_can_not_be_sorted():
    schema = {"type": "array", "uniqueItems": True}
    assert fault(schema, [*map(str, range(50_000)), {}, {}]) is None
    assert "has non-unique elements" in fault(schema, [{}, "a", 1, "a"])


def test_a_key_that_fits_no_pattern_is_told_with_the_patterns():
    words = fault(mapping(UUID_KEY, {}), {"short": 1})
    assert words.startswith(f"'short' does not match any of the regexes: '{UUID_KEY}'")


def test_a_key_may_not_hide_a_line_break_behind_the_pattern_s_end():
    record = {"allocations": {}, "project_id": "p", "user_id": "u", "consumer_generation": None, "consumer_type": "T"}
    assert fault(consumers(V.CONSUMER_TYPES), {A: record}) is None
    assert fault(consumers(V.CONSUMER_TYPES), {A + "\n": record}) is not None
    assert fault(consumers(V.CONSUMER_TYPES), {A: {**record, "consumer_type": "T\n"}}) is not None


def test_nul_is_in_no_text_that_is_stored():
    record = {"allocations": {}, "project_id": "p\0", "user_id": "u", "consumer_generation": None, "consumer_type": "T"}
    assert "'project_id'" in fault(consumers(V.CONSUMER_TYPES), {A: record})


@pytest.mark.parametrize("ratio", [0, -1.5, 3.40282e38, -3.40282e38])
def test_any_ratio_that_can_be_stored_is_accepted(ratio):
    record = {"total": 1, "allocation_ratio": ratio}
    assert fault(ALL_INVENTORIES, {"resource_provider_generation": 0, "inventories": {"VCPU": record}}) is None


@pytest.mark.parametrize("ratio", [3.5e38, -3.5e38, True, "1"])
def test_any_other_ratio_is_refused(ratio):
    record = {"total": 1, "allocation_ratio": ratio}
    assert fault(ALL_INVENTORIES, {"resource_provider_generation": 0, "inventories": {"VCPU": record}}) is not None


LIST = [{"resource_provider": {"uuid": A}, "resources": {"VCPU": 1}}]
DICT = {A: {"resources": {"VCPU": 1}}}
OWNER = {"project_id": "p", "user_id": "u"}
GUARD = {"consumer_generation": None}
TYPE = {"consumer_type": "INSTANCE"}
MAPPINGS = {"mappings": {"": [], "_A": [A]}}

FORMS = [
    ({"allocations": LIST}, (0, 7)),
    ({"allocations": LIST, **OWNER}, (8, 11)),
    ({"allocations": [], **OWNER}, None),
    ({"allocations": DICT, **OWNER}, (12, 27)),
    ({"allocations": {}, **OWNER}, None),
    ({"allocations": DICT, **OWNER, **GUARD}, (28, 37)),
    ({"allocations": {}, **OWNER, **GUARD}, (28, 37)),
    ({"allocations": DICT, **OWNER, **GUARD, **MAPPINGS}, (34, 37)),
    ({"allocations": DICT, **OWNER, **GUARD, "mappings": {}}, None),
    ({"allocations": DICT, **OWNER, **GUARD, **TYPE}, (38, 39)),
    ({"allocations": DICT, **OWNER, **GUARD, **MAPPINGS, **TYPE}, (38, 39)),
    ({"allocations": DICT, **OWNER, **GUARD, "consumer_type": "instance"}, None),
    ({"allocations": DICT, **OWNER, "consumer_generation": "0", **TYPE}, None),
    ({"allocations": {A: {"resources": {}}}, **OWNER, **GUARD, **TYPE}, None),
    ({"allocations": {A: {"resources": {"VCPU": 0}}}, **OWNER, **GUARD, **TYPE}, None),
    ({"allocations": {A: {"resources": {"vcpu": 1}}}, **OWNER, **GUARD, **TYPE}, None),
    ({"allocations": {"nobody": {"resources": {"VCPU": 1}}}, **OWNER, **GUARD, **TYPE}, None),
    ({"allocations": {A: {"resources": {"VCPU": 1}, "generation": 3}}, **OWNER, **GUARD, **TYPE}, (38, 39)),
]


@pytest.mark.parametrize(("body", "span"), FORMS)
def test_each_microversion_accepts_its_own_form_of_a_claim(body, span):
    accepted = [v.value for v in V if fault(consumer(v, ALLOCATIONS.at(v)), body) is None]
    assert accepted == (list(range(span[0], span[1] + 1)) if span else [])


def test_the_microversions_that_changed_the_form_are_all_that_did():
    schemas = [consumer(v, ALLOCATIONS.at(v)) for v in V]
    changed = [v for v, before, after in zip(list(V)[1:], schemas, schemas[1:], strict=False) if before != after]
    assert (V.INITIAL, *changed) == CONSUMER_CHANGES


def test_every_form_stands_for_the_same_claim(incomplete):
    oldest = build_wanted({"allocations": [{"resource_provider": {"uuid": A}, "resources": {"VCPU": 2.0}}]})
    assert oldest.claim(B, incomplete) == Claim(B, {A: {"VCPU": 2}}, "nobody's", "nobody", None, UNCHECKED)
    newest = build_wanted({"allocations": {A: {"resources": {"VCPU": 2}}}, **OWNER, "consumer_generation": 3, **TYPE})
    assert newest.claim(B, incomplete) == Claim(B, {A: {"VCPU": 2}}, "p", "u", "INSTANCE", 3)


def test_of_a_provider_that_is_listed_twice_the_last_entry_counts(incomplete):
    twice = [{"resource_provider": {"uuid": A}, "resources": {"VCPU": 1, "DISK_GB": 5}}, *LIST]
    assert build_wanted({"allocations": twice}).allocations == {A: {"VCPU": 1}}


@pytest.fixture
def incomplete():
    from stead.api.bodies import Owner

    return Owner("nobody's", "nobody")
