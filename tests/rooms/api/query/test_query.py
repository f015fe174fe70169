"""Query strings to requests, at each microversion.

Source: "Query grammar" and "GET /resource_providers", docs/api.md.
"""

import pytest

from stead.api.query.candidates import BEYOND, Pairs, parse_candidate_request, request_of
from stead.api.query.providers import parse_provider_query
from stead.api.versions import ALL_FEATURES, NEWEST, Agreed, S, V
from stead.domain.errors import InvalidQuery
from stead.domain.request import Apart, Flavor, ProviderQuery, RequestGroup, Terms
from tests.rooms.api.query.queries import CANDIDATE_FAULTS, OWN_FAULTS, PROVIDER_FAULTS, A, B

UNDEFINED = None


def pairs(query):
    class Asked:
        query_string = query

    return Pairs.of(Asked)


def candidates(query, minor=39):
    return parse_candidate_request(pairs(query), Agreed(V(minor)))


def providers(query, minor=39):
    return parse_provider_query(pairs(query), Agreed(V(minor)))


def all_of(*names):
    return Terms(tuple(frozenset([name]) for name in names))


def test_pairs_are_decoded_and_keep_their_order():
    assert list(pairs("b=1&a=%F0%9F%90%A7+x&&b=2=3&c&=d")) == [
        ("b", "1"),
        ("a", "🐧 x"),
        ("b", "2=3"),
        ("c", ""),
        ("", "d"),
    ]
    assert list(pairs("a=ž".encode().decode("latin-1"))) == [("a", "ž")]


@pytest.mark.parametrize("query", ["a=%ff", "%ed%a0%80=1", "a=\xff"])
def test_what_is_not_utf_8_is_refused(query):
    with pytest.raises(InvalidQuery, match="Invalid query string parameters:"):
        pairs(query)


def test_a_request_of_everything():
    query = (
        "resources=VCPU:2,MEMORY_MB:1024&required=HW_A,!HW_B&required=in:HW_C,HW_D&limit=5&group_policy=isolate"
        f"&member_of=in:{A},{B}&member_of=!{A}&resources_X=VGPU:1&in_tree_X={A}&required1=CUSTOM_T&resources1=VCPU:1"
        "&same_subtree=_X,1&same_subtree=1&root_required=HW_R,!HW_S&required_N=!HW_Z&same_subtree=_N"
    )
    request = candidates(query)
    assert request.groups == (
        RequestGroup(
            "",
            {"VCPU": 2, "MEMORY_MB": 1024},
            Terms((frozenset(["HW_A"]), frozenset(["HW_C", "HW_D"])), frozenset(["HW_B"])),
            Terms((frozenset([A, B]),), frozenset([A])),
        ),
        RequestGroup("_X", {"VGPU": 1}, in_tree=A),
        RequestGroup("1", {"VCPU": 1}, all_of("CUSTOM_T")),
        RequestGroup("_N", {}, Terms((), frozenset(["HW_Z"]))),
    )
    assert (request.limit, request.isolate, request.one_provider_per_tree) == (5, True, False)
    assert request.same_subtree == (frozenset(["_X", "1"]), frozenset(["1"]), frozenset(["_N"]))
    assert request.root_traits == Terms((frozenset(["HW_R"]),), frozenset(["HW_S"]))


@pytest.mark.parametrize(
    ("query", "minor", "groups"),
    [
        ("resources=VCPU:1&resources=VCPU:2", 39, (RequestGroup("", {"VCPU": 2}),)),
        ("resources=VCPU:1,VCPU:3", 39, (RequestGroup("", {"VCPU": 3}),)),
        ("resources=VCPU:%2B1", 39, (RequestGroup("", {"VCPU": 1}),)),
        ("resources=VCPU:1_0", 39, (RequestGroup("", {"VCPU": 10}),)),
        (f"resources=VCPU:{2**70}", 39, (RequestGroup("", {"VCPU": 2**70}),)),
        (f"resources=VCPU:{'9' * 5000}", 39, (RequestGroup("", {"VCPU": BEYOND}),)),
        ("resources=VCPU:1&required=A&required=B", 38, (RequestGroup("", {"VCPU": 1}, all_of("B")),)),
        ("resources=VCPU:1&required=A&required=B", 39, (RequestGroup("", {"VCPU": 1}, all_of("A", "B")),)),
        ("resources=VCPU:1&required=&required=B", 38, (RequestGroup("", {"VCPU": 1}, all_of("B")),)),
        ("resources=VCPU:1&required=+A+,+B+", 39, (RequestGroup("", {"VCPU": 1}, all_of("A", "B")),)),
        ("resources=VCPU:1&required=in:A", 39, (RequestGroup("", {"VCPU": 1}, all_of("A")),)),
        ("resources=VCPU:1&required=!in:A", 39, (RequestGroup("", {"VCPU": 1}, Terms((), frozenset(["in:A"]))),)),
        ("resources=VCPU:1&required=!!A", 39, (RequestGroup("", {"VCPU": 1}, Terms((), frozenset(["!A"]))),)),
        (f"resources=VCPU:1&in_tree=+{A}+", 39, (RequestGroup("", {"VCPU": 1}, in_tree=A),)),
        (f"resources=VCPU:1&in_tree={A}&in_tree={B}", 39, (RequestGroup("", {"VCPU": 1}, in_tree=B),)),
        (f"resources=VCPU:1&member_of={A.upper()}", 39, (RequestGroup("", {"VCPU": 1}, aggregates=all_of(A.upper())),)),
        ("resources01=VCPU:1", 33, (RequestGroup("01", {"VCPU": 1}),)),
        (
            "resources_=VCPU:1&resources-9_a=VGPU:1&group_policy=none",
            33,
            (RequestGroup("_", {"VCPU": 1}), RequestGroup("-9_a", {"VGPU": 1})),
        ),
        (
            "required1=T&resources=VCPU:1&resources1=VGPU:1",
            39,
            (RequestGroup("1", {"VGPU": 1}, all_of("T")), RequestGroup("", {"VCPU": 1})),
        ),
    ],
)
def test_groups(query, minor, groups):
    assert candidates(query, minor).groups == groups


@pytest.mark.parametrize(
    ("query", "limit"), [("", None), ("limit=10&limit=1", 10), ("limit=1%0A", 1), (f"limit={'9' * 5000}", BEYOND)]
)
def test_the_first_limit_counts(query, limit):
    assert candidates(f"resources=VCPU:1&{query}").limit == limit


def test_before_1_29_two_providers_of_one_tree_do_not_serve_one_request():
    assert [candidates("resources=VCPU:1", minor).one_provider_per_tree for minor in (10, 28, 29)] == [
        True,
        True,
        False,
    ]


@pytest.mark.parametrize(("query", "minors", "texts", "code"), CANDIDATE_FAULTS)
def test_a_faulty_candidate_query_is_refused(query, minors, texts, code):
    for minor in minors:
        with pytest.raises(InvalidQuery) as refused:
            candidates(query, minor)
        assert all(text in str(refused.value) for text in texts), (minor, str(refused.value))
        assert refused.value.code == code


@pytest.mark.parametrize(("query", "minors", "texts"), PROVIDER_FAULTS)
def test_a_faulty_provider_query_is_refused(query, minors, texts):
    for minor in minors:
        with pytest.raises(InvalidQuery) as refused:
            providers(query, minor)
        assert all(text in str(refused.value) for text in texts), (minor, str(refused.value))


KEYS = [  # what is asked, first microversion: candidates
    ("limit=1", 16),
    ("required=A", 17),
    ("member_of=" + A, 21),
    ("required=!A", 22),
    (f"member_of={A}&member_of={B}", 24),
    ("group_policy=none", 25),
    ("resources1=VCPU:1", 25),
    ("required1=A&resources1=VCPU:1", 25),
    (f"in_tree={A}", 31),
    (f"in_tree1={A}&resources1=VCPU:1", 31),
    (f"member_of=!{A}", 32),
    (f"member_of=!in:{A}", 32),
    ("resources_a=VCPU:1", 33),
    ("resources0=VCPU:1", 33),
    ("root_required=A", 35),
    ("same_subtree=1&resources1=VCPU:1", 36),
    ("required1=A&same_subtree=1", 36),
    ("required=in:A,B", 39),
]


def accepting(parse, query):
    def accepts(minor):
        try:
            parse(query, minor)
        except InvalidQuery:
            return False
        return True

    return [minor for minor in range(40) if accepts(minor)]


@pytest.mark.parametrize(("query", "first"), KEYS)
def test_what_a_microversion_brought_to_candidates_is_refused_before(query, first):
    assert [m for m in accepting(candidates, f"resources=VCPU:1&{query}") if m >= 10] == list(range(max(first, 10), 40))


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("name=a", 0),
        (f"uuid={A}", 0),
        (f"member_of={A}", 3),
        ("resources=VCPU:1", 4),
        (f"in_tree={A}", 14),
        ("required=A", 18),
        ("required=!A", 22),
        (f"member_of={A}&member_of={B}", 24),
        (f"member_of=!{A}", 32),
        ("required=in:A,B", 39),
    ],
)
def test_what_a_microversion_brought_to_the_provider_list_is_refused_before(query, first):
    assert accepting(providers, query) == list(range(first, 40))


def test_provider_filters():
    query = (
        f"name=&uuid={A}&in_tree={B}&member_of=!in:{A},{B}&member_of={B}"
        "&resources=VCPU:x&resources=VCPU:2&required=A,!B"
    )
    assert providers(query) == ProviderQuery(
        name=None,
        uuid=A,
        in_tree=B,
        traits=Terms((frozenset(["A"]),), frozenset(["B"])),
        aggregates=Terms((frozenset([B]),), frozenset([A, B])),
        resources={"VCPU": 2},
    )


def test_2000_groups_and_60_kb_are_read():
    query = "&".join(f"resources_{n}=VCPU:1&required_{n}=HW_CPU_X86_AVX2" for n in range(2000)) + "&group_policy=none"
    assert len(query) > 60_000
    assert len(candidates(query).groups) == 2000


def own(query):
    """What a candidate query means where Stead's own features are asked for."""
    return parse_candidate_request(pairs(query), Agreed(NEWEST, S.OWN_FEATURES))


@pytest.mark.parametrize(("query", "texts", "code"), OWN_FAULTS)
def test_a_faulty_query_for_stead_s_own_features_is_refused(query, texts, code):
    with pytest.raises(InvalidQuery) as refused:
        own(query)
    assert all(text in str(refused.value) for text in texts), str(refused.value)
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("key", "refusal"),
    [
        *((key, f"'{key}' does not match any of the regexes") for key in ("root_member_of", "isolate", "can_split")),
        ("in_subtree", "'in_subtree' does not match"),
        ("in_subtree_A", "'in_subtree_A' does not match"),
    ],
)
def test_stead_s_own_keys_are_unknown_to_every_microversion_alone(key, refusal):
    with pytest.raises(InvalidQuery, match=refusal):
        candidates(f"resources=VCPU:1&{key}={A}")


def test_a_negated_suffix_alone_is_a_strange_suffix():
    with pytest.raises(InvalidQuery, match=r"\['!_A'\] not found"):
        candidates("resources_A=VCPU:1&same_subtree=_A,!_A")


def test_what_all_of_stead_s_own_keys_mean_together():
    request = own(
        f"resources=VCPU:8,DISK_GB:1&can_split=VCPU , VCPU&in_subtree={A}&in_subtree= {B} &resources_A=VGPU:1"
        f"&resources_B=VGPU:1&required_N=X&in_subtree_N={A}&isolate=_A&isolate=_B , _A&same_subtree=_A,_N,!_B, !_B"
        f"&same_subtree=_A,_N&root_member_of=in:{A},{B}&root_member_of=!{A}&root_member_of=!in:{B}"
    )
    assert [group.in_subtree for group in request.groups] == [B, None, None, A]
    assert [group.can_split for group in request.groups] == [frozenset({"VCPU"}), *[frozenset()] * 3]
    assert all(group.like_any_other for group in request.groups)
    assert (request.isolate, request.isolated) == (False, frozenset({"_A", "_B"}))
    assert request.same_subtree == (frozenset({"_A", "_N"}),)
    assert request.apart == (Apart(frozenset({"_A", "_N"}), frozenset({"_B"})),)
    assert request.root_aggregates == Terms((frozenset({A, B}),), frozenset({A, B}))


def test_groups_need_no_policy_where_stead_s_own_features_are_asked_for():
    assert not own("resources_A=VCPU:1&resources_B=VCPU:1").isolate
    assert own("resources_A=VCPU:1&resources_B=VCPU:1&group_policy=isolate").isolate


def test_without_them_groups_mean_what_they_always_did():
    (group,) = candidates("resources_A=VCPU:1").groups
    assert (group.in_subtree, group.can_split, group.like_any_other) == (None, frozenset(), False)


def test_the_request_of_a_repeated_query_is_cached_for_each_version():
    query = "resources=VCPU:1&required=HW_CPU_X86_VMX"
    request = request_of(query, Agreed(V.WHOLE_SUMMARIES))
    assert request == candidates(query, V.WHOLE_SUMMARIES)
    assert request_of(query, Agreed(V.WHOLE_SUMMARIES)) is request
    assert request_of(query, Agreed(V.CONSUMER_GENERATION)) is not request
    assert request_of(query, Agreed(NEWEST)) == candidates(query, NEWEST) != request


def test_an_invalid_query_is_refused_each_time():
    for _ in range(2):
        with pytest.raises(InvalidQuery, match="Badly formed"):
            request_of("resources=VCPU", Agreed(NEWEST))


def test_a_flavor_is_read_for_each_request():
    query, own = "fl%61vor=small&limit=1", ALL_FEATURES
    for amount in (1, 2):
        flavor = Flavor("small", f"resources=VCPU:{amount}", "")
        request = request_of(query, own, lambda _, flavor=flavor: flavor)
        assert [dict(group.resources) for group in request.groups] == [{"VCPU": amount}]
    with pytest.raises(InvalidQuery, match="flavor cannot be used here"):
        request_of(query, own)
