"""Requests as values: what they say, what they refuse, and that the server reads them as they are meant."""

from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import stead
from stead.client.errors import InvalidRequest
from stead.client.request import Group, Request, encoded
from stead.domain.errors import InvalidQuery
from tests.rooms.client.requests import as_the_client_means, as_the_server_reads, flavored, requests

RACK = UUID(int=7)

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])


@given(requests)
@unhurried
def test_the_server_reads_a_request_as_it_is_meant(request):
    read = as_the_server_reads(str(request))
    read.pop("order")
    assert read == as_the_client_means(request)


@given(requests)
@unhurried
def test_a_request_is_read_back_from_its_query_and_from_its_repr(request):
    assert Request.parse(str(request)) == request
    assert eval(repr(request), {"Request": Request, "Group": Group}) == request
    assert hash(Request.parse(str(request))) == hash(request)


PIECES = [
    "resources=VCPU:1",
    "resources=VCPU:2,CUSTOM_A:1",
    "resources_A=VCPU:1",
    "resources_B=VCPU: 3",
    "resources=VCPU:0",
    "resources=VCPU:1:2",
    "resources=",
    "required=HW_A,!HW_B",
    "required=in:HW_A,HW_B",
    "required=!HW_A",
    "required=HW_A",
    "required=in:HW_A,!HW_B",
    "required_A=HW_A, HW_B",
    "required=HW_A,",
    "required=!",
    "member_of=x",
    f"member_of={RACK}",
    f"member_of=in:{RACK},{UUID(int=8)}",
    f"member_of=!{RACK}",
    f"member_of=!in:{RACK}",
    f"member_of={RACK},{RACK}",
    f"in_tree={RACK}",
    "in_tree=name:host1",
    "in_tree=host1",
    "in_tree=name:",
    "in_subtree_A=name:x",
    f"in_subtree={RACK}",
    "limit=3",
    "limit=0",
    "limit=x",
    "group_policy=none",
    "group_policy=isolate",
    "group_policy=x",
    "isolate=_A",
    "isolate=_A,_B",
    "isolate=_C",
    "isolate=",
    "same_subtree=_A,_B",
    "same_subtree=_A,!_B",
    "same_subtree=!_A",
    "same_subtree=_A,!_A",
    "same_subtree= _A , _B",
    "can_split=VCPU",
    "can_split=DISK_GB",
    "can_split=",
    "order_by=pack",
    "order_by=VCPU:asc,MEMORY_MB:desc",
    "order_by=VCPU:2,MEMORY_MB:-.5",
    "order_by=VCPU:asc,MEMORY_MB:1",
    "order_by=VCPU:0",
    "root_required=HW_A,!HW_B",
    "root_required=HW_A,!HW_A",
    "root_required=in:HW_A,HW_B",
    f"root_member_of=!{RACK}",
    f"root_member_of=in:{RACK}",
    "colour=red",
    "flavor=m1.a",
    "flavor=m1.b",
    "flavor= m1",
    "flavor=",
    "required%5FA=CUSTOM%5FX",
    "resources_A=VCPU%3A4",
    "member_of=%FF",
]


@given(st.lists(st.sampled_from(PIECES), max_size=6))
def test_a_query_is_parsed_if_and_only_if_the_server_accepts_it(pieces):
    query = "&".join(pieces)
    try:
        read = as_the_server_reads(query)
    except InvalidQuery:
        with pytest.raises(InvalidRequest):
            Request.parse(query)
    else:
        assert as_the_server_reads(str(Request.parse(query))) == read


FLAVOR = Request(Group(VCPU=2), Group("_A", PGPU=1), order="pack")


@given(flavored)
@unhurried
def test_a_flavor_is_restricted_by_what_stands_beside_it(request):
    query = str(request)
    assert Request.parse(query) == request
    assert eval(repr(request), {"Request": Request, "Group": Group}) == request
    both = [(key, value) for key, value in request.pairs() if key != "flavor"]
    assert as_the_server_reads(query, FLAVOR) == as_the_server_reads(f"{FLAVOR}&{encoded(both)}")


def test_groups_are_written_with_their_suffixes():
    job = Request(
        Group("cpu", PCPU=8, MEMORY_MB=16 * 1024),
        Group("gpu", PGPU=2, required={"CUSTOM_GPU_A100"}),
        near=["cpu", "gpu"],
        order="pack",
    )
    assert str(job) == (
        "resourcescpu=PCPU:8,MEMORY_MB:16384&resourcesgpu=PGPU:2&requiredgpu=CUSTOM_GPU_A100"
        "&same_subtree=cpu,gpu&group_policy=none&order_by=pack"
    )


def test_a_group_is_repeated_with_numbers_and_all_groups_are_near():
    gpu = Group("gpu", PGPU=1, required="CUSTOM_A100", in_tree="host")
    first, second = gpu.times(2)
    assert (first, second.name, gpu.name) == (
        Group("gpu0", PGPU=1, required="CUSTOM_A100", in_tree="host"),
        "gpu1",
        "gpu",
    )
    assert gpu.times(0) == ()
    names = ["cpu", "gpu0", "gpu1"]
    near = Request(Group("cpu", PCPU=8), Group(MEMORY_MB=1), *gpu.times(2), near=True)
    assert near == Request(Group("cpu", PCPU=8), Group(MEMORY_MB=1), first, second, near=names)
    assert Request(Group("cpu", PCPU=8), near=False) == Request(Group("cpu", PCPU=8))


def test_the_name_of_a_rack_is_the_same_uuid_always():
    uuid = stead.rack("r7")
    assert uuid == stead.rack("r7") == stead.rack(uuid.upper()) != stead.uuid_of("r7")
    assert Group(VCPU=1, member_of=stead.rack("r7")).member_of == {frozenset([uuid])}
    assert uuid == "2317c17d-0b34-5ac6-9703-691536dc7440"


def test_the_limit_of_a_call_replaces_that_of_the_request():
    job = Request(Group(VCPU=1), limit=5)
    assert job.query(limit=2).endswith("limit=2")
    assert job.query().endswith("limit=5")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Group(VCPU=0), "at least 1"),
        (lambda: Group(VCPU=True), "at least 1"),
        (lambda: Group(VCPU=1.5), "at least 1"),
        (lambda: Group(vcpu=1), "no name of a resource class"),
        (lambda: Group("a b", VCPU=1), "no name of a group"),
        (lambda: Group(VCPU=1, required="hw_a"), "no name of a trait"),
        (lambda: Group(VCPU=1, required="!HW_A"), "no name of a trait"),
        (lambda: Group(VCPU=1, required={"HW_A": 1}, forbidden="HW_A"), "both required and forbidden"),
        (lambda: Group(VCPU=1, required=[[]]), "no names"),
        (lambda: Group(VCPU=1, member_of="rack-1"), r"no uuid of an aggregate; stead[.]rack[(]'rack-1'[)]"),
        (lambda: Group(VCPU=1).times(2), "only a group with a name"),
        (lambda: Group("gpu", PGPU=1).times(-1), "negative"),
        (lambda: Request(Group(VCPU=1), near=True), "near=True needs groups with a name"),
        (lambda: stead.rack(""), "an aggregate needs a name"),
        (lambda: Group(VCPU=1, in_tree=""), "needs a uuid or a name"),
        (lambda: Group("a"), "requests nothing"),
        (lambda: Group("gpu", PGPU=2, split=True), "only the group without a name"),
        (lambda: Group(VCPU=2, split=["PGPU"]), "does not request: PGPU"),
        (lambda: Request(), "at least one group"),
        (lambda: Request(Group(VCPU=1), Group(VCPU=2)), "two groups have the name"),
        (lambda: Request(Group(VCPU=1), Group("a", required="HW_A")), "near must name it"),
        (lambda: Request(Group(VCPU=1), near=["a"]), "does not exist: 'a'"),
        (lambda: Request(Group("a", VCPU=1), near=["!a"]), "without '!'"),
        (lambda: Request(Group("a", VCPU=1), near=["a", "!a"]), "both with and without"),
        (lambda: Request(Group(VCPU=1), isolate=["a"]), "does not exist: 'a'"),
        (lambda: Request(Group(VCPU=1), order="best"), "'best' is no order"),
        (lambda: Request(Group(VCPU=1), order={"VCPU": 0}), "is no order"),
        (lambda: Request(Group(VCPU=1), order="VCPU:asc,VCPU:desc"), "names a class twice"),
        (lambda: Request(Group(VCPU=1), limit=0), "limit must be"),
        (lambda: Request(Group(VCPU=1), root_required=["A"], root_forbidden="A"), "both required and forbidden"),
        (lambda: Request(flavor="m 1"), "'m 1' is no name of a flavor"),
        (lambda: Request(flavor=""), "no name of a flavor"),
        (lambda: Request(Group(VCPU=1), flavor="m1"), "only a group without a name and without amounts"),
        (lambda: Request(Group("a", required="A"), flavor="m1"), "only a group without a name"),
        (lambda: Request(flavor="m1", near=["a"]), "flavor cannot be used together with near"),
        (lambda: Request(flavor="m1", isolate=True), "flavor cannot be used together with near or isolate"),
        (lambda: Request.parse("flavor=a&flavor=b"), "flavor may be given only once"),
        (lambda: Request.parse("colour=red"), "unknown parameter 'colour'"),
    ],
)
def test_what_the_api_cannot_say_is_refused_before_anything_is_sent(make, words):
    with pytest.raises(InvalidRequest, match=words):
        make()
