"""What each microversion brought: the last one without it, and the first one with it.

Source: "Microversions", docs/api.md. A row says what is asked, and what is answered from which microversion on.
"""

from functools import cache
from typing import Any

import pytest

from tests.system.api.client import Answer, Api, fresh_custom, fresh_name, fresh_uuid, holding
from tests.system.microversions.rows import ALL, Row, body_of, fits, flat, held_by_new, listed, put, told

pytestmark = pytest.mark.one_database

SHA = "HW_CPU_X86_SHA"
SSE = "HW_CPU_X86_SSE"

Query = list[tuple[str, str]]


def rels(v: Api, api: Api) -> list[str]:
    shown = v.get(api.create_provider().path).expect(200)
    return [link["rel"] for link in shown.links]


def class_ensured(v: Api, api: Api) -> str:
    path = f"/resource_classes/{fresh_custom()}"
    return told(v.call("PUT", path, headers={"Content-Type": "application/json"}), "Malformed JSON:")


def class_renamed(v: Api, api: Api) -> list[int]:
    """PUT with another name in the body, then what stands at the old name and at the new one."""
    old, new = api.create_class(), fresh_custom()
    answers = [v.put(f"/resource_classes/{old}", name=new), *(api.get(f"/resource_classes/{n}") for n in (old, new))]
    return [answer.status for answer in answers]


def claim_without(field: str) -> Any:
    """How a claim is answered that says all that the newest microversion asks for, but not *field*."""

    def ask(v: Api, api: Api) -> str:
        host = api.create_provider(inventories={"VCPU": 1})
        body = body_of(v.version, host, {"VCPU": 1})
        body.pop(field, None)
        return told(v.put(f"/allocations/{fresh_uuid()}", body), f"'{field}' is a required property")

    return ask


def claim_with(field: str, value: Any) -> Any:
    """How a claim in the form of its microversion is answered that also says *field*."""

    def ask(v: Api, api: Api) -> str:
        body = {**body_of(v.version, api.create_provider(inventories={"VCPU": 1}), {"VCPU": 1}), field: value}
        return told(v.put(f"/allocations/{fresh_uuid()}", body), f"'{field}' was unexpected")

    return ask


def several_with(field: str, value: Any) -> Any:
    """The same for POST, of one consumer."""

    def ask(v: Api, api: Api) -> str:
        body = {**body_of(v.version, api.create_provider(inventories={"VCPU": 1}), {"VCPU": 1}), field: value}
        return told(v.post("/allocations", {fresh_uuid(): body}), f"'{field}' was unexpected")

    return ask


def several_without(field: str) -> Any:
    def ask(v: Api, api: Api) -> str:
        body = body_of(v.version, api.create_provider(inventories={"VCPU": 1}), {"VCPU": 1})
        body.pop(field, None)
        return told(v.post("/allocations", {fresh_uuid(): body}), f"'{field}' is a required property")

    return ask


def reshape_with(field: str, value: Any) -> Any:
    def ask(v: Api, api: Api) -> str:
        host = api.create_provider(inventories={"VCPU": 1})
        body = {**body_of(v.version, host, {"VCPU": 1}), field: value}
        kept = {"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 1}}}
        answer = v.post("/reshaper", inventories={host.uuid: kept}, allocations={fresh_uuid(): body})
        return told(answer, f"'{field}' was unexpected")

    return ask


def reshape_without(field: str) -> Any:
    def ask(v: Api, api: Api) -> str:
        host = api.create_provider(inventories={"VCPU": 1})
        body = body_of(v.version, host, {"VCPU": 1})
        body.pop(field, None)
        kept = {"resource_provider_generation": 1, "inventories": {"VCPU": {"total": 1}}}
        answer = v.post("/reshaper", inventories={host.uuid: kept}, allocations={fresh_uuid(): body})
        return told(answer, f"'{field}' is a required property")

    return ask


def claim_in(form: str) -> Any:
    """How a claim is answered whose allocations are a list, or an object by provider."""

    def ask(v: Api, api: Api) -> int:
        host = api.create_provider(inventories={"VCPU": 1})
        forms = {
            "list": [{"resource_provider": {"uuid": host.uuid}, "resources": {"VCPU": 1}}],
            "object": {host.uuid: {"resources": {"VCPU": 1}}},
        }
        body = {**body_of(v.version, host, {"VCPU": 1}), "allocations": forms[form]}
        return v.put(f"/allocations/{fresh_uuid()}", body).status

    return ask


def release_by_put(v: Api, api: Api) -> str:
    host = api.create_provider(inventories={"VCPU": 1})
    consumer = api.claim((host, {"VCPU": 1}))
    body = body_of(v.version, host, {"VCPU": 1}, consumer_generation=1)
    answer = v.put(f"/allocations/{consumer}", {**body, "allocations": type(body["allocations"])()})
    return f"{told(answer)}, {api.used(host)['VCPU']} used"


def release_by_post(v: Api, api: Api) -> str:
    host = api.create_provider(inventories={"VCPU": 1})
    consumer = api.claim((host, {"VCPU": 1}))
    body = body_of(v.version, host, {"VCPU": 1}, consumer_generation=1)
    answer = v.post("/allocations", {consumer: {**body, "allocations": {}}})
    return f"{told(answer)}, {api.used(host)['VCPU']} used"


def keys_of_consumer(v: Api, api: Api) -> list[str]:
    host = api.create_provider(inventories={"VCPU": 1})
    return sorted(v.get(f"/allocations/{api.claim((host, {'VCPU': 1}))}").expect(200).json)


def keys_of_holder(v: Api, api: Api) -> list[str]:
    """What a provider shows of a consumer."""
    host = api.create_provider(inventories={"VCPU": 1})
    consumer = api.claim((host, {"VCPU": 1}))
    return sorted(v.get(host.allocations).expect(200).allocations[consumer])


def old_generation_of_consumer(v: Api, api: Api) -> str:
    host = api.create_provider(inventories={"VCPU": 2})
    consumer = api.claim((host, {"VCPU": 1}))
    answer = put(v, consumer, host, {"VCPU": 2}, consumer_generation=7)
    return told(answer, "consumer generation conflict - expected 1 but got 7")


def type_of_consumer(v: Api, api: Api) -> str:
    """The type of a consumer that was a VOLUME, after it was written again."""
    host = api.create_provider(inventories={"VCPU": 2})
    consumer = api.claim((host, {"VCPU": 1}), consumer_type="VOLUME")
    put(v, consumer, host, {"VCPU": 2}, consumer_generation=1, consumer_type="INSTANCE").expect(204)
    return str(api.get(f"/allocations/{consumer}").consumer_type)


def type_of_new_consumer(v: Api, api: Api) -> str:
    consumer = held_by_new(v, api.create_provider(inventories={"VCPU": 1}), {"VCPU": 1})
    return str(api.get(f"/allocations/{consumer}").consumer_type)


def usages_of_project(v: Api, api: Api) -> Any:
    host, project = api.create_provider(inventories={"VCPU": 9}), fresh_name("project")
    for consumer_type in ("INSTANCE", "VOLUME"):
        api.claim((host, {"VCPU": 2}), project=project, consumer_type=consumer_type)
    answer = v.get("/usages", {"project_id": project})
    return answer.usages if answer.status == 200 else answer.status


def usages_of_type(v: Api, api: Api) -> str:
    return told(v.get("/usages", {"project_id": "p", "consumer_type": "all"}), "'consumer_type' was unexpected")


def created(v: Api, api: Api) -> tuple[int, str | None, list[str]]:
    """Status, content type and fields of the answer to POST of a provider."""
    answer = v.post("/resource_providers", name=fresh_name())
    assert (answer.header("location") or "").startswith("http")
    return answer.status, answer.header("content-type"), sorted(answer.json) if answer.body else []


def cache_headers(*path: str) -> Any:
    """How many of both headers the answer to GET has."""

    def ask(v: Api, api: Api) -> int:
        host = api.create_provider(inventories={"VCPU": 1}, traits=[SHA])
        answer = v.get("".join(path).format(host=host.path, uuid=host.uuid)).expect(200, 204)
        return sum(answer.header(name) is not None for name in ("cache-control", "last-modified"))

    return ask


def cache_headers_of_write(write: Any) -> Any:
    def ask(v: Api, api: Api) -> int:
        answer: Answer = write(v, api)
        assert answer.status < 300, answer
        return sum(answer.header(name) is not None for name in ("cache-control", "last-modified"))

    return ask


def put_aggregates(form: str) -> Any:
    """How aggregates in the form of an array, or of an object with a generation, are taken."""

    def ask(v: Api, api: Api) -> str:
        host, racks = api.create_provider(), [fresh_uuid()]
        bodies = {"array": racks, "object": {"aggregates": racks, "resource_provider_generation": 0}}
        answer = v.put(host.aggregates, bodies[form])
        return f"{told(answer, 'JSON does not validate')}, generation {api.generation(host)}"

    return ask


def reserve(reserved: int) -> Any:
    """How an inventory of 4 that reserves so much is taken, by each of the three ways to write it."""

    def ask(v: Api, api: Api) -> list[str]:
        host = api.create_provider(inventories={"VCPU": 4})
        record = {"total": 4, "reserved": reserved}
        texts = ("greater than or equal to total", "greater than total")
        new = api.create_provider()
        return [
            told(v.post(new.inventories, resource_class="VCPU", **record), *texts),
            told(v.put(host.inventory("VCPU"), **record, generation=1), *texts),
            told(v.put(host.inventories, inventories={"VCPU": record}, generation=api.generation(host)), *texts),
        ]

    return ask


def summary_of_host(v: Api, api: Api) -> tuple[list[str], int]:
    """What the summary of a candidate's provider shows, and of how many of its two classes."""
    lamp = api.create_class()
    host = api.create_provider(inventories={lamp: 2, "VCPU": 2})
    summary = v.get("/allocation_candidates", {"resources": f"{lamp}:1"}).expect(200).provider_summaries[host.uuid]
    return sorted(summary), len(summary["resources"])


def form_of_candidate(v: Api, api: Api) -> tuple[str, list[str]]:
    _, lamp = flat(api)
    (found,) = v.get("/allocation_candidates", {"resources": f"{lamp}:1"}).expect(200).allocation_requests
    return type(found["allocations"]).__name__, sorted(found)


def candidate_is_claimed_as_it_is(v: Api, api: Api) -> int:
    host, lamp = flat(api)
    (found,) = v.get("/allocation_candidates", {"resources": f"{lamp}:1"}).expect(200).allocation_requests
    return v.put(f"/allocations/{fresh_uuid()}", {**body_of(v.version, host, {lamp: 1}), **found}).status


def over_a_tree(v: Api, api: Api) -> str:
    """Two classes that only a parent and its child have together."""
    lamp, wick = api.create_class(), api.create_class()
    api.create_provider(parent=api.create_provider(inventories={lamp: 1}), inventories={wick: 1})
    return fits(v, resources=f"{lamp}:1,{wick}:1")


@cache
def sample(api: Api) -> tuple[str, str, str]:
    """A provider, for questions that change nothing; its class and its aggregate, which no other provider has."""
    rack = fresh_uuid()
    host, lamp = flat(api, traits=[SHA], aggregates=[rack])
    return host.uuid, lamp, rack


def asked(build: Any) -> Any:
    """How many candidates there are for a query about a host with a class, a trait and an aggregate of its own."""

    def ask(v: Api, api: Api) -> str:
        return fits(v, *build(*sample(api)))

    return ask


def listed_by(build: Any) -> Any:
    """How many providers a query lists that is about a host as above."""

    def ask(v: Api, api: Api) -> str:
        uuid, _, rack = sample(api)
        answer = v.get("/resource_providers", [("uuid", uuid), *build(uuid, rack)])
        phrases = ("was unexpected", "Multiple member_of parameters are not supported")
        more = ("Forbidden member_of parameters are not supported", "only supported since microversion 1.39")
        if answer.status != 200:
            return told(answer, *phrases, *more, "HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !")
        return f"{len(answer.resource_providers)} found"

    return ask


def move(to_nobody: bool) -> Any:
    """How a child is given another parent, or none."""

    def ask(v: Api, api: Api) -> str:
        child, other = api.create_provider(parent=api.create_provider()), api.create_provider()
        answer = v.put(child.path, name=child.name, parent_provider_uuid=None if to_nobody else other.uuid)
        phrases = [f"{how}-parenting a provider is not currently allowed" for how in ("re", "un")]
        return told(answer, "'parent_provider_uuid' was unexpected", *phrases)

    return ask


def adopt(v: Api, api: Api) -> str:
    """How a root is given a parent."""
    root, parent = api.create_provider(), api.create_provider()
    answer = v.put(root.path, name=root.name, parent_provider_uuid=parent.uuid)
    return told(answer, "'parent_provider_uuid' was unexpected")


def born_below(v: Api, api: Api) -> str:
    answer = v.post("/resource_providers", name=fresh_name(), parent_provider_uuid=api.create_provider().uuid)
    return told(answer, "'parent_provider_uuid' was unexpected")


def nothing_reshaped(v: Api, api: Api) -> int:
    host = api.create_provider()
    new = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": 1}}}
    return v.post("/reshaper", inventories={host.uuid: new}, allocations={}).status


def inventories_deleted(v: Api, api: Api) -> tuple[int, str | None]:
    answer = v.delete(api.create_provider(inventories={"VCPU": 1}).inventories)
    return answer.status, answer.header("allow")


NO_KEY = "400 was unexpected"
NO_PATTERN = "400 does not match any of the regexes"
NO_EXCLAMATION = "400 HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !"
NO_ANY = "400 only supported since microversion 1.39"

HISTORY = [
    # Providers: what is shown of them, and how they are made, moved and listed.
    Row(
        "links of a provider",
        {
            "1.0": ["self", "inventories", "usages"],
            "1.1": ["self", "inventories", "usages", "aggregates"],
            "1.6": ["self", "inventories", "usages", "aggregates", "traits"],
            "1.11": ["self", "inventories", "usages", "aggregates", "traits", "allocations"],
        },
        rels,
    ),
    Row(
        "fields of a provider",
        {
            "1.0": ["generation", "links", "name", "uuid"],
            "1.14": ["generation", "links", "name", "parent_provider_uuid", "root_provider_uuid", "uuid"],
        },
        lambda v, api: sorted(v.get(api.create_provider().path).json),
    ),
    Row(
        "a made provider is answered",
        {
            "1.0": (201, None, []),
            "1.20": (
                200,
                "application/json",
                ["generation", "links", "name", "parent_provider_uuid", "root_provider_uuid", "uuid"],
            ),
        },
        created,
    ),
    Row(
        "made below a parent",
        {"1.0": "400 'parent_provider_uuid' was unexpected", "1.14": "201", "1.20": "200"},
        born_below,
    ),
    Row("a root gets a parent", {"1.0": "400 'parent_provider_uuid' was unexpected", "1.14": "200"}, adopt),
    Row(
        "a child gets another parent",
        {
            "1.0": "400 'parent_provider_uuid' was unexpected",
            "1.14": "400 re-parenting a provider is not currently allowed",
            "1.37": "200",
        },
        move(to_nobody=False),
    ),
    Row(
        "a child loses its parent",
        {
            "1.0": "400 'parent_provider_uuid' was unexpected",
            "1.14": "400 un-parenting a provider is not currently allowed",
            "1.37": "200",
        },
        move(to_nobody=True),
    ),
    Row("list by name", {"1.0": "1 found"}, lambda v, api: listed(v, name=api.create_provider().name)),
    Row("list by uuid", {"1.0": "1 found"}, lambda v, api: listed(v, uuid=api.create_provider().uuid)),
    Row("list by member_of", {"1.0": NO_KEY, "1.3": "1 found"}, listed_by(lambda u, r: [("member_of", r)])),
    Row(
        "list by repeated member_of",
        {"1.0": NO_KEY, "1.3": "400 Multiple member_of parameters are not supported", "1.24": "1 found"},
        listed_by(lambda u, r: [("member_of", r), ("member_of", r)]),
    ),
    Row(
        "list by forbidden member_of",
        {"1.0": NO_KEY, "1.3": "400 Forbidden member_of parameters are not supported", "1.32": "0 found"},
        listed_by(lambda u, r: [("member_of", f"!{r}")]),
    ),
    Row(
        "list by none of several aggregates",
        {"1.0": NO_KEY, "1.3": "400 Forbidden member_of parameters are not supported", "1.32": "0 found"},
        listed_by(lambda u, r: [("member_of", f"!in:{r},{u}")]),
    ),
    Row("list by resources", {"1.0": NO_KEY, "1.4": "0 found"}, listed_by(lambda u, r: [("resources", "VCPU:1")])),
    Row("list by in_tree", {"1.0": NO_KEY, "1.14": "1 found"}, listed_by(lambda u, r: [("in_tree", u)])),
    Row("list by required", {"1.0": NO_KEY, "1.18": "1 found"}, listed_by(lambda u, r: [("required", SHA)])),
    Row(
        "list by forbidden trait",
        {"1.0": NO_KEY, "1.18": NO_EXCLAMATION, "1.22": "0 found"},
        listed_by(lambda u, r: [("required", f"!{SHA}")]),
    ),
    Row(
        "list by any of several traits",
        {"1.0": NO_KEY, "1.18": NO_ANY, "1.39": "1 found"},
        listed_by(lambda u, r: [("required", f"in:{SHA},{SSE}")]),
    ),
    Row(
        "list by repeated required, the last of which is met",
        {"1.0": NO_KEY, "1.18": "1 found", "1.39": "0 found"},
        listed_by(lambda u, r: [("required", SSE), ("required", SHA)]),
    ),
    # What providers have.
    Row("inventories are shown", {"1.0": 200}, lambda v, api: v.get(api.create_provider().inventories).status),
    Row("usages of a provider", {"1.0": 200}, lambda v, api: v.get(api.create_provider().usages).status),
    Row("allocations of a provider", {"1.0": 200}, lambda v, api: v.get(api.create_provider().allocations).status),
    Row("all inventories are deleted", {"1.0": (405, None), "1.5": (204, None)}, inventories_deleted),
    Row("an inventory reserves less than it has", {"1.0": ["201", "200", "200"]}, reserve(3)),
    Row(
        "an inventory reserves all it has",
        {"1.0": ["400 greater than or equal to total"] * 3, "1.26": ["201", "200", "200"]},
        reserve(4),
    ),
    Row(
        "an inventory reserves more than it has",
        {"1.0": ["400 greater than or equal to total"] * 3, "1.26": ["400 greater than total"] * 3},
        reserve(5),
    ),
    Row(
        "aggregates are shown", {"1.0": 404, "1.1": 200}, lambda v, api: v.get(api.create_provider().aggregates).status
    ),
    Row(
        "fields of aggregates",
        {"1.1": ["aggregates"], "1.19": ["aggregates", "resource_provider_generation"]},
        lambda v, api: sorted(v.get(api.create_provider().aggregates).json),
    ),
    Row(
        "aggregates as an array",
        {
            "1.0": "404, generation 0",
            "1.1": "200, generation 0",
            "1.19": "400 JSON does not validate, generation 0",
        },
        put_aggregates("array"),
    ),
    Row(
        "aggregates with a generation",
        {
            "1.0": "404, generation 0",
            "1.1": "400 JSON does not validate, generation 0",
            "1.19": "200, generation 1",
        },
        put_aggregates("object"),
    ),
    Row("traits of a provider", {"1.0": 404, "1.6": 200}, lambda v, api: v.get(api.create_provider().traits).status),
    Row(
        "traits of a provider are put",
        {"1.0": 404, "1.6": 200},
        lambda v, api: v.put(api.create_provider().traits, traits=[SHA], generation=0).status,
    ),
    Row(
        "traits of a provider are deleted",
        {"1.0": 404, "1.6": 204},
        lambda v, api: v.delete(api.create_provider().traits).status,
    ),
    # Names.
    Row("traits are listed", {"1.0": 404, "1.6": 200}, lambda v, api: v.get("/traits").status),
    Row("a trait is shown", {"1.0": 404, "1.6": 204}, lambda v, api: v.get(f"/traits/{SHA}").status),
    Row("a trait is made", {"1.0": 404, "1.6": 201}, lambda v, api: v.put(f"/traits/{fresh_custom()}").status),
    Row(
        "a trait is deleted", {"1.0": 404, "1.6": 204}, lambda v, api: v.delete(f"/traits/{api.create_trait()}").status
    ),
    Row("resource classes are listed", {"1.0": 404, "1.2": 200}, lambda v, api: v.get("/resource_classes").status),
    Row("a resource class is shown", {"1.0": 404, "1.2": 200}, lambda v, api: v.get("/resource_classes/VCPU").status),
    Row(
        "a resource class is made by POST",
        {"1.0": 404, "1.2": 201},
        lambda v, api: v.post("/resource_classes", name=fresh_custom()).status,
    ),
    Row(
        "a resource class is deleted",
        {"1.0": 404, "1.2": 204},
        lambda v, api: v.delete(f"/resource_classes/{api.create_class()}").status,
    ),
    Row("a resource class is made by PUT", {"1.0": "404", "1.2": "400 Malformed JSON:", "1.7": "201"}, class_ensured),
    Row(
        "a resource class is renamed",
        {"1.0": [404, 200, 404], "1.2": [200, 404, 200], "1.7": [204, 200, 404]},
        class_renamed,
    ),
    # Allocations.
    Row("allocations in a list", {"1.0": 204, "1.12": 400}, claim_in("list")),
    Row("allocations by provider", {"1.0": 400, "1.12": 204}, claim_in("object")),
    Row(
        "a claim without project",
        {"1.0": "204", "1.8": "400 'project_id' is a required property"},
        claim_without("project_id"),
    ),
    Row(
        "a claim without user", {"1.0": "204", "1.8": "400 'user_id' is a required property"}, claim_without("user_id")
    ),
    Row(
        "a claim with project",
        {"1.0": "400 'project_id' was unexpected", "1.8": "204"},
        claim_with("project_id", "p"),
    ),
    Row(
        "a claim without consumer generation",
        {"1.0": "204", "1.28": "400 'consumer_generation' is a required property"},
        claim_without("consumer_generation"),
    ),
    Row(
        "a claim with consumer generation",
        {"1.0": "400 'consumer_generation' was unexpected", "1.28": "204"},
        claim_with("consumer_generation", None),
    ),
    Row(
        "a claim with an old consumer generation",
        {"1.0": "204", "1.28": "409 consumer generation conflict - expected 1 but got 7"},
        old_generation_of_consumer,
    ),
    Row(
        "a claim with mappings",
        {"1.0": "400 'mappings' was unexpected", "1.34": "204"},
        claim_with("mappings", {"": [fresh_uuid()]}),
    ),
    Row(
        "a claim with consumer type",
        {"1.0": "400 'consumer_type' was unexpected", "1.38": "204"},
        claim_with("consumer_type", "INSTANCE"),
    ),
    Row(
        "a claim without consumer type",
        {"1.0": "204", "1.38": "400 'consumer_type' is a required property"},
        claim_without("consumer_type"),
    ),
    Row(
        "several claims without consumer generation",
        {"1.0": "404", "1.13": "204", "1.28": "400 'consumer_generation' is a required property"},
        several_without("consumer_generation"),
    ),
    Row(
        "several claims with mappings",
        {"1.0": "404", "1.13": "400 'mappings' was unexpected", "1.34": "204"},
        several_with("mappings", {"": [fresh_uuid()]}),
    ),
    Row(
        "several claims with consumer type",
        {"1.0": "404", "1.13": "400 'consumer_type' was unexpected", "1.38": "204"},
        several_with("consumer_type", "INSTANCE"),
    ),
    Row(
        "several claims without consumer type",
        {"1.0": "404", "1.13": "204", "1.38": "400 'consumer_type' is a required property"},
        several_without("consumer_type"),
    ),
    Row("a PUT of nothing", {"1.0": "400, 1 used", "1.28": "204, 0 used"}, release_by_put),
    Row("a POST of nothing", {"1.0": "404, 1 used", "1.13": "204, 0 used"}, release_by_post),
    Row(
        "fields of a consumer",
        {
            "1.0": ["allocations"],
            "1.12": ["allocations", "project_id", "user_id"],
            "1.28": ["allocations", "consumer_generation", "project_id", "user_id"],
            "1.38": ["allocations", "consumer_generation", "consumer_type", "project_id", "user_id"],
        },
        keys_of_consumer,
    ),
    Row(
        "fields of a consumer at its provider",
        {"1.0": ["resources"], "1.28": ["consumer_generation", "resources"]},
        keys_of_holder,
    ),
    Row("the type of a new consumer", {"1.0": "unknown", "1.38": "INSTANCE"}, type_of_new_consumer),
    Row("the type of a consumer that had one", {"1.0": "VOLUME", "1.38": "INSTANCE"}, type_of_consumer),
    Row(
        "usages of a project",
        {
            "1.0": 404,
            "1.9": {"VCPU": 4},
            "1.38": {type_: {"consumer_count": 1, "VCPU": 2} for type_ in ("INSTANCE", "VOLUME")},
        },
        usages_of_project,
    ),
    Row(
        "usages of a consumer type",
        {"1.0": "404", "1.9": "400 'consumer_type' was unexpected", "1.38": "200"},
        usages_of_type,
    ),
    Row("a reshape", {"1.0": 404, "1.30": 204}, nothing_reshaped),
    Row(
        "a reshape with mappings",
        {"1.30": "400 'mappings' was unexpected", "1.34": "204"},
        reshape_with("mappings", {"": [fresh_uuid()]}),
    ),
    Row(
        "a reshape with consumer type",
        {"1.30": "400 'consumer_type' was unexpected", "1.38": "204"},
        reshape_with("consumer_type", "INSTANCE"),
    ),
    Row(
        "a reshape without consumer type",
        {"1.30": "204", "1.38": "400 'consumer_type' is a required property"},
        reshape_without("consumer_type"),
    ),
    # Candidates.
    Row("candidates", {"1.0": "404", "1.10": "1 found"}, asked(lambda u, c, r: [("resources", f"{c}:1")])),
    Row("candidates without resources", {"1.10": "400 is a required property", "1.25": "400"}, lambda v, api: fits(v)),
    Row(
        "candidates with limit",
        {"1.10": NO_KEY, "1.16": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("limit", "1")]),
    ),
    Row(
        "candidates with required",
        {"1.10": NO_KEY, "1.17": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("required", SHA)]),
    ),
    Row(
        "candidates with a forbidden trait",
        {"1.10": NO_KEY, "1.17": NO_EXCLAMATION, "1.22": "0 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("required", f"!{SHA}")]),
    ),
    Row(
        "candidates with any of several traits",
        {
            "1.10": NO_KEY,
            "1.17": "400 'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39.",
            "1.39": "1 found",
        },
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("required", f"in:{SHA},{SSE}")]),
    ),
    Row(
        "candidates with repeated required, the last of which is met",
        {"1.10": NO_KEY, "1.17": "1 found", "1.39": "0 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("required", SSE), ("required", SHA)]),
    ),
    Row(
        "candidates with member_of",
        {"1.10": NO_KEY, "1.21": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("member_of", r)]),
    ),
    Row(
        "candidates with repeated member_of",
        {"1.10": NO_KEY, "1.21": "400 Multiple member_of parameters are not supported", "1.24": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("member_of", r), ("member_of", f"in:{r},{u}")]),
    ),
    Row(
        "candidates with a forbidden aggregate",
        {
            "1.10": NO_KEY,
            "1.21": "400 Forbidden member_of parameters are not supported in the specified microversion",
            "1.32": "0 found",
        },
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("member_of", f"!{r}")]),
    ),
    Row(
        "candidates with a numbered group",
        {"1.10": NO_KEY, "1.25": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("resources1", f"{c}:1")]),
    ),
    Row(
        "candidates with a group policy",
        {"1.10": NO_KEY, "1.25": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("group_policy", "isolate")]),
    ),
    Row(
        "candidates with a number that has a leading zero",
        {"1.10": NO_KEY, "1.25": NO_PATTERN, "1.33": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("resources01", f"{c}:1")]),
    ),
    Row(
        "candidates with a group of any name",
        {"1.10": NO_KEY, "1.25": NO_PATTERN, "1.33": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("resources_LAMP-a", f"{c}:1")]),
    ),
    Row(
        "candidates with in_tree",
        {"1.10": NO_KEY, "1.25": NO_PATTERN, "1.31": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("in_tree", u)]),
    ),
    Row(
        "candidates with in_tree of a group",
        {"1.25": NO_PATTERN, "1.31": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("resources1", f"{c}:1"), ("in_tree1", u)]),
    ),
    Row(
        "candidates with root_required",
        {"1.10": NO_KEY, "1.25": NO_PATTERN, "1.35": "1 found"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("root_required", SHA)]),
    ),
    Row(
        "candidates with same_subtree",
        {"1.25": NO_PATTERN, "1.36": "1 found"},
        asked(lambda u, c, r: [("resources1", f"{c}:1"), ("same_subtree", "1")]),
    ),
    Row(
        "candidates with a group that has traits only",
        {"1.25": "400 All traits parameters must be associated with resources.", "1.36": "400"},
        asked(lambda u, c, r: [("resources", f"{c}:1"), ("required1", SHA)]),
    ),
    Row(
        "candidates over several providers of a tree",
        {"1.10": "0 found", "1.29": "1 found"},
        over_a_tree,
    ),
    Row(
        "the form of a candidate",
        {
            "1.10": ("list", ["allocations"]),
            "1.12": ("dict", ["allocations"]),
            "1.34": ("dict", ["allocations", "mappings"]),
        },
        form_of_candidate,
    ),
    Row("a candidate is claimed as it is", {"1.10": 204}, candidate_is_claimed_as_it_is),
    Row(
        "the summary of a provider, and of how many of its two classes",
        {
            "1.10": (["resources"], 1),
            "1.17": (["resources", "traits"], 1),
            "1.27": (["resources", "traits"], 2),
            "1.29": (["parent_provider_uuid", "resources", "root_provider_uuid", "traits"], 2),
        },
        summary_of_host,
    ),
    # Errors and headers.
    Row(
        "codes in errors",
        {"1.0": None, "1.23": "placement.undefined_code"},
        lambda v, api: v.get("/nothing").error.code,
    ),
    Row(
        "the code of a duplicate",
        {"1.0": None, "1.23": "placement.duplicate_name"},
        lambda v, api: v.post("/resource_providers", name=api.create_provider().name).error.code,
    ),
    *(
        Row(f"cache headers of GET {path}", {first: 0, "1.15": 2}, cache_headers(path))
        for path, first in [
            ("/", "1.0"),
            ("/resource_providers?uuid={uuid}", "1.0"),
            ("{host}", "1.0"),
            ("{host}/inventories", "1.0"),
            ("{host}/inventories/VCPU", "1.0"),
            ("{host}/usages", "1.0"),
            ("{host}/aggregates", "1.1"),
            ("{host}/allocations", "1.0"),
            ("{host}/traits", "1.6"),
            ("/resource_classes", "1.2"),
            ("/resource_classes/VCPU", "1.2"),
            ("/traits", "1.6"),
            (f"/traits/{SHA}", "1.6"),
            ("/allocations/{uuid}", "1.0"),
            ("/allocation_candidates?resources=VCPU:1", "1.10"),
            ("/usages?project_id=p", "1.9"),
        ]
    ),
    *(
        Row(f"cache headers of {subject}", {first: 0, "1.15": 2}, cache_headers_of_write(write))
        for subject, first, write in [
            ("a trait that is made", "1.6", lambda v, api: v.put(f"/traits/{fresh_custom()}")),
            ("a trait that exists", "1.6", lambda v, api: v.put(f"/traits/{api.create_trait()}")),
            (
                "a changed provider",
                "1.0",
                lambda v, api: v.put(api.create_provider().path, name=fresh_name()),
            ),
            (
                "an added inventory",
                "1.0",
                lambda v, api: v.post(api.create_provider().inventories, resource_class="VCPU", total=1),
            ),
            (
                "changed inventories",
                "1.0",
                lambda v, api: v.put(
                    api.create_provider().inventories, inventories={"VCPU": {"total": 1}}, generation=0
                ),
            ),
            (
                "changed traits",
                "1.6",
                lambda v, api: v.put(api.create_provider().traits, traits=[SHA], generation=0),
            ),
        ]
    ),
    Row(
        "cache headers of a resource class that is put",
        {"1.7": 0},
        cache_headers_of_write(lambda v, api: v.put(f"/resource_classes/{fresh_custom()}")),
    ),
    Row(
        "cache headers of a claim",
        {"1.0": 0},
        cache_headers_of_write(
            lambda v, api: put(v, fresh_uuid(), api.create_provider(inventories={"VCPU": 1}), {"VCPU": 1})
        ),
    ),
]


@pytest.mark.parametrize(
    ("row", "version"), [pytest.param(row, at, id=f"{row.subject} at {at}") for row in HISTORY for at in row.edges()]
)
def test_history(api: Api, row: Row, version: str) -> None:
    assert row.ask(api.at(version), api) == row.expected(version)


def test_every_microversion_begins_a_span_of_some_row() -> None:
    assert {first for row in HISTORY for first in row.answers} == set(ALL)


def test_holding_is_what_the_newest_microversion_takes(api: Api) -> None:
    host = api.create_provider()
    assert body_of(ALL[-1], host, {"VCPU": 1}) == holding((host, {"VCPU": 1}))
