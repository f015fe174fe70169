"""Predicates and jsonschema agree on every schema of the edge."""

import json
import re
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from stead.api.bodies import Body, Validator
from stead.api.query import candidates, providers
from stead.api.resources import allocations, changes, claims, inventories, resource_providers, traits
from stead.api.versions import Agreed, Microversion, Versioned

UUID = "4e8e5957-649f-477b-9e5b-f1f75b21c03c"
RESOURCES = (
    resource_providers,
    allocations,
    changes,
    claims,
    allocations,
    inventories,
    allocations,
    traits,
    resource_providers,
    traits,
    inventories,
)


def validators():
    """Every validator of the edge, by a name that tells where it stands."""
    for module in RESOURCES:
        for name, value in vars(module).items():
            if isinstance(value, Validator):
                yield f"{module.__name__} {name}", value
            elif isinstance(value, Versioned):
                for version, body in value.items():
                    if isinstance(body, Body):
                        yield f"{module.__name__} {name} {version}", body.validator
    for version in Microversion:
        for module in (candidates, providers):
            yield f"{module.__name__} {version}", module.validator(Agreed(version))
        yield f"{inventories.__name__} {version}", inventories.validator(version)


DIFFERENT = {json.dumps(validator.schema): name for name, validator in validators()}
ALL = {name: validator for name, validator in validators() if name in DIFFERENT.values()}

TEXTS = (
    *(
        "",
        "a",
        "VCPU",
        "CUSTOM_LAMP",
        "CUSTOM_LAMP\n",
        "a\0",
        "x" * 255,
        "x" * 256,
        "none",
        "isolate",
        "all",
        "true",
        "1",
        "01",
    ),
    *(UUID, UUID.upper(), UUID.replace("-", ""), f"{{{UUID}}}", f"{UUID}\n", UUID[:-1]),
)
NUMBERS = (0, 1, -1, 1.0, 0.0, 1.5, 2147483647, 2147483648, 2147483647.0, 3.40282e38, 3.5e38, -3.5e38, True, False)
SUFFIXES = ("", "1", "01", "_a", "_!", "_" * 64, "_" * 65)
NAMES = (*TEXTS, *(word + suffix for word in candidates.GROUP_KEYS for suffix in SUFFIXES))

junk = st.one_of(
    st.sampled_from((None, *TEXTS, *NUMBERS)),
    st.lists(st.sampled_from(TEXTS), max_size=2),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(NUMBERS), max_size=2),
)


@cache
def plain_values(schema):
    """Those of the plain values that are of *schema* (as text)."""
    reference = Validator(json.loads(schema)).reference
    return [value for value in (None, *TEXTS, *NUMBERS) if reference.is_valid(value)]


@st.composite
def near(draw, schema):
    """A value of *schema*, or not quite: a twentieth of its parts may be anything."""
    if draw(st.integers(0, 19)) == 0:
        return draw(junk)
    if "anyOf" in schema:
        return draw(st.one_of(*map(near, schema["anyOf"])))
    if schema.get("type") == "object":
        return draw(near_object(schema))
    if schema.get("type") == "array":
        return draw(st.lists(near(schema["items"]), max_size=3))
    return draw(st.sampled_from(plain_values(json.dumps(schema))))


@st.composite
def near_object(draw, schema):
    """An object with most of the members it should have, and some of those that it may have."""
    value = {}
    for name, part in schema.get("properties", {}).items():
        if draw(st.integers(0, 19)) < (19 if name in schema.get("required", ()) else 8):
            value[name] = draw(near(part))
    for pattern, part in schema.get("patternProperties", {}).items():
        names = [name for name in NAMES if re.search(pattern, name)]
        value |= draw(
            st.dictionaries(st.sampled_from(names), near(part), min_size=schema.get("minProperties", 0), max_size=2)
        )
    if draw(st.integers(0, 19)) == 0:
        value[draw(st.sampled_from(NAMES))] = draw(junk)
    return value


def told(faults):
    return [(fault.message, list(fault.absolute_path), list(fault.absolute_schema_path)) for fault in faults]


@pytest.mark.parametrize("name", ALL)
def test_a_predicate_accepts_what_jsonschema_finds_no_fault_with_and_else_the_faults_are_the_same(name):
    validator = ALL[name]

    # A busy machine is slow to make values, which says nothing about them.
    @settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(near(validator.schema))
    def agree(value):
        faults = told(validator.reference.iter_errors(value))
        assert not (faults and validator.accepts(value))
        if not faults:  # most valid values need no second look; those with a line break at the end do
            assert validator.accepts(value) or "\\n" in json.dumps(value)
        assert told(validator.faults(value)) == faults
        assert (validator.best_fault(value) is None) == (not faults)

    agree()


def test_members_without_a_fault_are_not_looked_into(monkeypatch):
    """Jsonschema takes some microseconds for each of what may be a million."""
    validator = Validator(
        {"type": "array", "items": {"type": "object", "patternProperties": {"x": {"type": "string"}}}}
    )
    entered = []
    finder = type(validator._finder)
    descend = finder.descend
    monkeypatch.setattr(
        finder, "descend", lambda self, *args, **more: entered.append(1) or descend(self, *args, **more)
    )
    value = [*([{"x": "good"}] * 500), {**{f"x{number}": "good" for number in range(500)}, "x": 1}]
    assert "On instance[500]['x']: 1" in validator.best_fault(value)
    assert len(entered) <= 10
