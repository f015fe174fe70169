"""The worked examples of the contract, as forests and requests in memory.

The reader of query strings here is small and trusting on purpose: it knows the newest syntax and checks nothing, so
that the examples can be tried on what has no HTTP.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import yaml

from stead.domain.request import Apart, CandidateRequest, ProviderQuery, RequestGroup, Terms
from tests.checkout import ROOT
from tests.rooms.candidates.plain import Forest, PlainInventory, PlainProvider, uuid_of

if TYPE_CHECKING:
    from collections.abc import Iterator

EXAMPLES = ROOT / "tests" / "system" / "examples"
# A safe one in C, if PyYAML has it: every process of the tests reads these files when it collects them.
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

FILES = (EXAMPLES / "candidate_examples.yaml", EXAMPLES / "candidate_examples_beyond.yaml")

STANDARD_CLASSES = {"VCPU", "MEMORY_MB", "DISK_GB", "VGPU", "SRIOV_NET_VF", "IPV4_ADDRESS", "PCPU"}
STANDARD_TRAITS = {"MISC_SHARES_VIA_AGGREGATE", "HW_CPU_X86_AVX2", "HW_CPU_X86_VMX", "COMPUTE_STATUS_DISABLED"}

ERRORS_OF_DATA = ("No such trait", "No such resource class", "Invalid resource class")
"""What a refusal says that only the data can cause; all others are faults of syntax, which is not read here."""

WORDS = ("resources", "required", "member_of", "in_tree", "in_subtree")
GROUP_KEY = re.compile(rf"({'|'.join(WORDS)})(.*)", re.DOTALL)


@dataclass(frozen=True)
class Case:
    """One row: a query on a forest, and what the contract says comes out; ``is_own`` if it asks for ``stead`` too."""

    forest: Forest
    microversion: int
    is_own: bool
    path: str
    query: str
    expected: dict[str, Any]

    @property
    def is_refused(self) -> bool:
        return bool(self.expected.get("status", 200) != 200)


def cases() -> Iterator[tuple[str, Case]]:
    """Every row that looks at data, with its name (``E07.3``)."""
    for example in (example for file in FILES for example in yaml.load(file.read_text("utf-8"), _LOADER)):
        forest = forest_of(example)
        for number, row in enumerate(example["cases"], 1):
            query = fill(row.get("query", ""))
            outcome = row | row.get("expect_any", [{}])[0]  # the others are outcomes of the released service alone
            path = row.get("path", "/allocation_candidates")
            microversion, is_own = int(row["microversion"].split(".")[1]), "stead" in row
            case = Case(forest, microversion, is_own, path, query, outcome)
            if not is_older_syntax(case) and (not case.is_refused or is_refused_by_data(outcome)):
                yield f"{example['id']}.{number}", case


def is_older_syntax(case: Case) -> bool:
    """Before 1.39 a repeated ``required`` does not add up."""
    return case.microversion < 39 and case.query.count("&required=") + case.query.startswith("required=") > 1


def is_refused_by_data(outcome: dict[str, Any]) -> bool:
    return any(part in detail for part in ERRORS_OF_DATA for detail in outcome.get("detail_contains", []))


def fill(query: str) -> str:
    """*query* with uuids for the placeholders ``{rp:NAME}``, ``{agg:NAME}``, ``{uuid:NAME}`` (which nothing has)."""
    return re.sub(r"\{(rp|agg|uuid):([^}]+)\}", lambda m: uuid_of(("nothing " * (m[1] == "uuid")) + m[2]), query)


def forest_of(example: dict[str, Any]) -> Forest:
    providers = tuple(provider_of(row) for row in example["providers"])
    classes = {name for provider in providers for name in provider.inventories}
    traits = {name for provider in providers for name in provider.traits}
    return Forest(
        providers,
        classes=frozenset(classes | STANDARD_CLASSES),
        traits=frozenset(traits | STANDARD_TRAITS | set(example.get("traits", ()))),
    )


def provider_of(row: dict[str, Any]) -> PlainProvider:
    used = row.get("used", {})
    inventories = {
        name: PlainInventory(**({"total": held} if isinstance(held, int) else held), used=used.get(name, 0))
        for name, held in row.get("inventories", {}).items()
    }
    traits, aggregates = frozenset(row.get("traits", ())), frozenset(row.get("aggregates", ()))
    return PlainProvider(row["name"], row["parent"], inventories, traits, aggregates)


def candidate_request(case: Case) -> CandidateRequest:
    pairs = parse_qsl(case.query, keep_blank_values=True)
    limits = [int(value) for key, value in pairs if key == "limit"]
    return CandidateRequest(
        groups=tuple(groups(pairs, is_own=case.is_own)),
        isolate=("group_policy", "isolate") in pairs,
        isolated=frozenset(suffix for key, value in pairs if key == "isolate" for suffix in value.split(",")),
        same_subtree=tuple(together for together, others in subtrees(pairs) if not others),
        apart=tuple(Apart(together, others) for together, others in subtrees(pairs) if others),
        root_traits=trait_terms([value for key, value in pairs if key == "root_required"]),
        root_aggregates=aggregate_terms([value for key, value in pairs if key == "root_member_of"]),
        limit=limits[0] if limits else None,
        one_provider_per_tree=case.microversion < 29,
    )


def subtrees(pairs: list[tuple[str, str]]) -> Iterator[tuple[frozenset[str], frozenset[str]]]:
    for value in (value.split(",") for key, value in pairs if key == "same_subtree"):
        others = {suffix for suffix in value if suffix.startswith("!")}
        yield frozenset(value) - others, frozenset(suffix[1:] for suffix in others)


def groups(pairs: list[tuple[str, str]], *, is_own: bool) -> Iterator[RequestGroup]:
    can_split = [name for key, value in pairs if key == "can_split" for name in value.split(",")]
    for suffix, values in by_suffix(pairs).items():
        yield RequestGroup(
            suffix=suffix,
            resources=resources(values["resources"]) or {},
            traits=trait_terms(values["required"]),
            aggregates=aggregate_terms(values["member_of"]),
            in_tree=values["in_tree"][-1] if values["in_tree"] else None,
            in_subtree=values["in_subtree"][-1] if values["in_subtree"] else None,
            can_split=frozenset(() if suffix else can_split),
            like_any_other=is_own,
        )


def by_suffix(pairs: list[tuple[str, str]]) -> dict[str, dict[str, list[str]]]:
    """The values of each key of each group, groups in order of first appearance."""
    found: dict[str, dict[str, list[str]]] = {}
    for key, value in pairs:
        match = GROUP_KEY.fullmatch(key)
        if match:
            empty: dict[str, list[str]] = {word: [] for word in WORDS}
            found.setdefault(match[2], empty)[match[1]].append(value)
    return found


def provider_query(case: Case) -> ProviderQuery:
    values = by_suffix(parse_qsl(case.query))[""]
    return ProviderQuery(
        in_tree=values["in_tree"][-1] if values["in_tree"] else None,
        in_subtree=values["in_subtree"][-1] if values["in_subtree"] else None,
        traits=trait_terms(values["required"]),
        aggregates=aggregate_terms(values["member_of"]),
        resources=resources(values["resources"]),
    )


def resources(values: list[str]) -> dict[str, int] | None:
    """The last value counts."""
    pairs = [item.split(":") for item in values[-1].split(",")] if values else []
    return {name: int(amount) for name, amount in pairs} or None


def trait_terms(values: list[str]) -> Terms:
    clauses = [frozenset(value[3:].split(",")) for value in values if value.startswith("in:")]
    plain = [name.strip() for value in values if not value.startswith("in:") for name in value.split(",")]
    clauses += [frozenset({name}) for name in plain if not name.startswith("!")]
    return Terms(tuple(clauses), frozenset(name[1:] for name in plain if name.startswith("!")))


def aggregate_terms(values: list[str]) -> Terms:
    clauses = [frozenset(value.removeprefix("in:").split(",")) for value in values if not value.startswith("!")]
    forbidden = [value[1:].removeprefix("in:").split(",") for value in values if value.startswith("!")]
    return Terms(tuple(clauses), frozenset(uuid for uuids in forbidden for uuid in uuids))


ALL = dict(cases())
CANDIDATES = {name: case for name, case in ALL.items() if case.path == "/allocation_candidates"}
PROVIDERS = {name: case for name, case in ALL.items() if case.path == "/resource_providers"}
