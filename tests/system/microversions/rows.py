"""What a row of a table over microversions is made of, and small things to try them on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.system.api.client import Answer, Api, Provider, fresh_uuid, holding

ALL = [f"1.{minor}" for minor in range(40)]


def before(version: str) -> str:
    """The microversion before this one."""
    return ALL[ALL.index(version) - 1]


@dataclass(frozen=True)
class Row:
    """One observation and what it gives, by the first microversion of each span.

    ``ask`` gets the API at the microversion that is tried, and at the newest one, to set the stage with.
    """

    subject: str
    answers: dict[str, Any]
    ask: Callable[[Api, Api], Any]

    def expected(self, version: str) -> Any:
        known = [answer for first, answer in self.answers.items() if ALL.index(first) <= ALL.index(version)]
        return known[-1]

    def edges(self) -> list[str]:
        """Both sides of every change, the oldest microversion that is spoken of, and the newest."""
        first, *changes = self.answers
        versions = {first, *changes, *map(before, changes), ALL[-1]}
        return [version for version in ALL if version in versions]


def told(answer: Answer, *phrases: str) -> str:
    """The status, and which of the *phrases* the detail of the error has."""
    found = [phrase for phrase in phrases if answer.status >= 400 and phrase in answer.error.detail]
    return " ".join([str(answer.status), *found])


def flat(api: Api, *, total: int = 9, **more: Any) -> tuple[Provider, str]:
    """A provider with inventory of a class that nobody else has, and that class."""
    lamp = api.create_class()
    return api.create_provider(inventories={lamp: total}, **more), lamp


def listed(v: Api, **query: str) -> str:
    """How listing providers by this query is answered: with how many, or with which refusal."""
    answer = v.get("/resource_providers", query)
    unexpected = f"'{next(reversed(query))}' was unexpected"
    return told(answer, unexpected) if answer.status != 200 else f"{len(answer.resource_providers)} found"


def fits(v: Api, *query: tuple[str, str], **more: str) -> str:
    """How many candidates there are, or how the question is refused."""
    answer = v.get("/allocation_candidates", [*query, *more.items()])
    if answer.status == 200:
        return f"{len(answer.allocation_requests)} found"
    return told(answer, "was unexpected", "does not match any of the regexes", "is a required property", *PHRASES)


PHRASES = (
    "HW_CPU_X86_VMX,CUSTOM_MAGIC. Got: !",
    "'in:HW_CPU_X86_VMX,CUSTOM_MAGIC' only supported since microversion 1.39.",
    "Multiple member_of parameters are not supported",
    "Forbidden member_of parameters are not supported in the specified microversion",
    "All request groups must specify resources.",
    "All traits parameters must be associated with resources.",
)


CONSUMER = ["project_id", "user_id", "consumer_generation", "consumer_type"]
SINCE = {"project_id": "1.8", "user_id": "1.8", "consumer_generation": "1.28", "consumer_type": "1.38"}


def body_of(version: str, provider: Provider, resources: dict[str, int], **fields: Any) -> dict[str, Any]:
    """What PUT of allocations takes at this microversion."""
    minor = ALL.index(version)
    newest = {**holding((provider, resources)), **fields}
    kept = {name: newest[name] for name in CONSUMER if ALL.index(SINCE[name]) <= minor}
    if minor >= 12:
        return {"allocations": newest["allocations"], **kept}
    return {"allocations": [{"resource_provider": {"uuid": provider.uuid}, "resources": resources}], **kept}


def put(v: Api, consumer: str, provider: Provider, resources: dict[str, int], **fields: Any) -> Answer:
    """Write allocations in the form of the microversion."""
    return v.put(f"/allocations/{consumer}", body_of(v.version, provider, resources, **fields))


def held_by_new(v: Api, provider: Provider, resources: dict[str, int]) -> str:
    """A new consumer that holds *resources*, written at the microversion that is tried."""
    consumer = fresh_uuid()
    put(v, consumer, provider, resources).expect(204)
    return consumer
