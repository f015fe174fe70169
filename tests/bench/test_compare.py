"""Two servers' answers held against each other: what differs is noticed, what may differ is not."""

import copy
import json

import pytest

from stead_bench.compare import Answers, differences, limited_differences

BODY = {
    "allocation_requests": [
        {"allocations": {"a": {"resources": {"VCPU": 1, "DISK_GB": 2}}}, "mappings": {"": ["a"], "_1": ["a", "b"]}},
        {"allocations": {"b": {"resources": {"VCPU": 1}}}, "mappings": {"": ["b"]}},
    ],
    "provider_summaries": {
        "a": {"resources": {"VCPU": {"capacity": 4, "used": 0}}, "traits": ["T", "U"]},
        "b": {"resources": {"VCPU": {"capacity": 4, "used": 1}}, "traits": []},
    },
}


def answers(body: object) -> Answers:
    return Answers.of(json.dumps(body).encode())


def changed(change) -> Answers:
    body = copy.deepcopy(BODY)
    change(body)
    return answers(body)


def shuffle(body) -> None:
    body["allocation_requests"].reverse()
    body["allocation_requests"][1]["mappings"]["_1"].reverse()
    body["provider_summaries"] = dict(reversed(body["provider_summaries"].items()))
    body["provider_summaries"]["a"]["traits"].reverse()


def test_order_is_no_difference():
    assert differences(answers(BODY), changed(shuffle)) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["allocation_requests"].pop(),
        lambda body: body["allocation_requests"].append(body["allocation_requests"][0]),
        lambda body: body["allocation_requests"][0]["allocations"]["a"]["resources"].update(VCPU=2),
        lambda body: body["allocation_requests"][0]["mappings"].update({"_1": ["a"]}),
        lambda body: body["provider_summaries"]["b"]["resources"]["VCPU"].update(used=2),
        lambda body: body["provider_summaries"]["a"]["traits"].pop(),
        lambda body: body["provider_summaries"].pop("b"),
    ],
)
def test_a_planted_difference_is_noticed_on_both_sides(change):
    assert differences(answers(BODY), changed(change))
    assert differences(changed(change), answers(BODY))


def test_where_a_limit_cuts_is_open_but_not_how_many_it_leaves_or_what_exists():
    first, second = (
        changed(lambda body: body["allocation_requests"].pop()),
        changed(lambda body: body["allocation_requests"].pop(0)),
    )
    nothing = changed(lambda body: body["allocation_requests"].clear())
    invented = changed(lambda body: (body["allocation_requests"].pop(), body["allocation_requests"][0].clear()))
    assert limited_differences(first, second, answers(BODY)) == []
    assert limited_differences(first, nothing, None) == ["Stead gives 1 answers, the peer 0"]
    assert limited_differences(invented, second, None) == []
    assert limited_differences(invented, second, answers(BODY))


def test_of_listed_providers_all_but_the_generation_counts():
    def listed(**more):
        provider = {"uuid": "a", "name": "n", "generation": 1, "parent_provider_uuid": None, "root_provider_uuid": "a"}
        return answers({"resource_providers": [provider | more]})

    assert differences(listed(), listed(generation=7)) == []
    assert differences(listed(), listed(name="m"))
    assert len(listed()) == 1
