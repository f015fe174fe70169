"""Random requests as values, and what the server reads in a query, in a form that can be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from hypothesis import strategies as st

from stead.api.query.candidates import Pairs, parse_candidate_request
from stead.api.versions import Agreed, S, V
from stead.client.errors import InvalidRequest
from stead.client.request import Group, Request
from stead.domain.request import Flavor

if TYPE_CHECKING:
    from stead.domain.request import CandidateRequest, Terms

AGREED = Agreed(V.ANY_TRAITS, S.PROVIDER_TREES)

_names = st.sampled_from(["_A", "_B", "cpu", "gpu-1", "7"])
_classes = st.sampled_from(["VCPU", "MEMORY_MB", "CUSTOM_GPU", "3D"])
_traits = st.sampled_from(["HW_A", "HW_B", "CUSTOM_C", "CUSTOM_D"])
_aggregates = st.sampled_from([str(UUID(int=number)) for number in range(1, 5)])
_references = st.one_of(st.none(), _aggregates, st.sampled_from(["host1", "name:host 1&x=ü", "a:b,c"]))
_amounts = st.dictionaries(_classes, st.integers(1, 10**12), max_size=2)


def _clauses(names: st.SearchStrategy[str]) -> st.SearchStrategy[list[object]]:
    return st.lists(st.one_of(names, st.frozensets(names, min_size=1, max_size=2)), max_size=2)


@st.composite
def _groups(draw: st.DrawFn, name: str, drawn_amounts: st.SearchStrategy[dict[str, int]] = _amounts) -> Group:
    amounts = draw(drawn_amounts)
    return Group(
        name,
        amounts,
        required=draw(_clauses(_traits)),
        forbidden=draw(st.frozensets(_traits, max_size=1)),
        member_of=draw(_clauses(_aggregates)),
        not_member_of=draw(st.frozensets(_aggregates, max_size=2)),
        in_tree=draw(_references),
        in_subtree=draw(_references),
        split=draw(st.booleans()) if not name and amounts else False,
    )


_orders = st.one_of(
    st.none(),
    st.sampled_from(["pack", "spread", "random"]),
    st.dictionaries(_classes, st.sampled_from(["asc", "desc"]), min_size=1),
    st.dictionaries(_classes, st.sampled_from([1, -2.5, 0.000_01, 1_000_000]), min_size=1),
)


@st.composite
def maybe_requests(draw: st.DrawFn) -> Request | None:
    """A request; None if the arguments contradict each other, as of half of them."""
    names = draw(st.lists(st.one_of(st.just(""), _names), unique=True, min_size=1, max_size=3))
    suffixes = [name for name in names if name]
    suffix_sets = st.frozensets(st.sampled_from(suffixes), min_size=1) if suffixes else st.just(frozenset())
    try:
        return Request(
            *(draw(_groups(name)) for name in names),
            near=draw(st.lists(suffix_sets, max_size=2)) if suffixes else (),
            isolate=draw(st.one_of(st.booleans(), suffix_sets)),
            root_required=draw(st.frozensets(_traits, max_size=2)),
            root_forbidden=draw(st.frozensets(_traits, max_size=1)),
            root_member_of=draw(_clauses(_aggregates)),
            root_not_member_of=draw(st.frozensets(_aggregates, max_size=2)),
            order=draw(_orders),
            limit=draw(st.one_of(st.none(), st.integers(1, 10**6))),
        )
    except InvalidRequest:
        return None


requests = maybe_requests().filter(lambda request: request is not None)


@st.composite
def _flavored(draw: st.DrawFn) -> Request | None:
    try:
        terms = draw(st.one_of(st.none(), _groups("", st.just({}))))
        return Request(
            *([] if terms is None else [terms]),
            flavor="m1.a+b",
            root_required=draw(st.frozensets(_traits, max_size=1)),
            root_member_of=draw(_clauses(_aggregates)),
            limit=draw(st.one_of(st.none(), st.integers(1, 10**6))),
        )
    except InvalidRequest:
        return None


flavored = _flavored().filter(lambda request: request is not None)
"""Requests of a flavor without an order."""

ONE_CORE = Request(Group(VCPU=1))


def as_the_server_reads(query: str, flavor: Request = ONE_CORE) -> dict[str, object]:
    """What the server makes of *query*, if all flavors are the same one.

    Raises:
        InvalidQuery: it rejects the query.
    """
    return _facts(parse_candidate_request(Pairs.read(query), AGREED, lambda name: Flavor(name, str(flavor), "")))


def _facts(read: CandidateRequest) -> dict[str, object]:
    return {
        "groups": [
            (
                group.suffix,
                tuple(group.resources.items()),
                _terms(group.traits),
                _terms(group.aggregates),
                group.in_tree,
                group.in_subtree,
                group.can_split,
            )
            for group in read.groups
        ],
        "isolate": read.isolated or read.isolate,
        "near": set(read.same_subtree)
        | {apart.together | {f"!{other}" for other in apart.others} for apart in read.apart},
        "root_traits": _terms(read.root_traits),
        "root_aggregates": _terms(read.root_aggregates),
        "order": read.order,
        "limit": read.limit,
    }


def _terms(terms: Terms) -> tuple[object, object]:
    return frozenset(terms.clauses), terms.forbidden


def as_the_client_means(request: Request) -> dict[str, object]:
    """The same of a request of the library, except its order, whose text the server reads."""
    return {
        "groups": [
            (
                group.name,
                group.amounts,
                (group.required, group.forbidden),
                (group.member_of, group.not_member_of),
                group.in_tree,
                group.in_subtree,
                group.split,
            )
            for group in request.groups
        ],
        "isolate": request.isolate,
        "near": set(request.near),
        "root_traits": (frozenset(frozenset([name]) for name in request.root_required), request.root_forbidden),
        "root_aggregates": (request.root_member_of, request.root_not_member_of),
        "limit": request.limit,
    }
