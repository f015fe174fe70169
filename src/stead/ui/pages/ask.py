"""``/ui/ask``: candidates of a request, why it has them or none, and a claim."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from shlex import quote
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlencode
from uuid import uuid4

from stead.api.query.candidates import GROUP_KEYS, REQUEST_KEYS, Pairs, finder, parse_candidate_request, with_flavor
from stead.api.request import Refused, is_strict, normalised_uuid, require_allocations, require_groups
from stead.api.resources.allocations import query_of
from stead.api.versions import ALL_FEATURES, NEWEST, NEWEST_STEAD
from stead.auth.authentication import Credentials
from stead.candidates.explain import EACH, Constraint
from stead.client import candidate as words
from stead.domain.claim import Claim
from stead.domain.errors import BadRequest, InvalidQuery
from stead.printing import class_words, in_class_order
from stead.store.extensions import flavors
from stead.ui.pages.provider import boxes_of_candidate, nodes
from stead.ui.rendering import READABLE
from stead.ui.sessions import may, read_own_form

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from stead.api.request import Request, Response
    from stead.candidates.explain import Count, Explanation, Relaxation
    from stead.candidates.headroom.headroom import Headroom
    from stead.candidates.kinds import Candidate
    from stead.candidates.placing import Amounts
    from stead.catalog.snapshot import Snapshot
    from stead.domain.limits import RequestLimits
    from stead.domain.request import CandidateRequest
    from stead.service.service import Service
    from stead.service.what_if import Advised
    from stead.ui.pages.provider import Box, Node
    from stead.ui.rendering import Rendering

    Given = Sequence[tuple[str, str]]


_CANDIDATES = 20
"""Candidates in a page, if the query has no limit, or a higher one."""

_FLAVORS = 1_000
"""Flavors in the list of the form. If there are more, the form has a field for the name."""

_EXPLAIN = "explain"
_FLAVOR = "flavor"
_ROOM = "room"


class Ask:
    """The page. Its query string is that of GET ``/allocation_candidates``, with ``flavor``, and ``explain``."""

    def __init__(self, service: Service, rendering: Rendering, limits: RequestLimits) -> None:
        self._service = service
        self._rendering = rendering
        self._limits = limits

    def on_get(self, req: Request, resp: Response) -> None:
        """Show the form; with a query, also its candidates, or why it has none."""
        req.require("placement:allocation_candidates:list", None)
        given = [(key, value.strip()) for key, value in Pairs.of(req) if value.strip()]
        explained = any(key == _EXPLAIN for key, _ in given)
        wants_room = any(key == _ROOM for key, _ in given)
        given = [(key, value) for key, value in given if key not in (_EXPLAIN, _ROOM, "claimed")]
        values: dict[str, Any] = dict.fromkeys(("candidates", "why", "headroom", "flavor", "written_out", "room"))
        values |= {"problem": "", "is_more": False}
        if given:
            try:
                values |= self._answer(req, given, explained=explained, wants_room=wants_room)
            except BadRequest as error:
                resp.status = "400 Bad Request"
                values["problem"] = str(error)
        self._rendering.show(
            req,
            resp,
            "ask",
            groups=groups_of(given),
            fields=request_fields(given),
            choice=self._choice_of_flavors(req, _chosen_flavor(given)),
            chosen=_chosen_flavor(given),
            query=urlencode(given),
            spelled=urlencode(given, safe=READABLE),
            elsewhere=elsewhere(f"{req.prefix}{req.root_path}", urlencode(given, safe=READABLE)) if given else None,
            classes=classes_of(self._service.snapshot()),
            group_keys=list(GROUP_KEYS),
            request_keys={key: _LABELS[key] for key in REQUEST_KEYS},
            claimed=req.get_param("claimed") or "",
            may_explain=may(req, "stead:allocation_candidates:explain"),
            may_advise=may(req, "stead:advice:show"),
            may_claim=self._rendering.writes and may(req, "placement:allocations:update"),
            # In the form, so that a form that is sent twice names one consumer, and the second claim conflicts.
            consumer=str(uuid4()),
            owner=Credentials.of(req.env),
            **values,
        )

    def _answer(
        self, req: Request, given: Sequence[tuple[str, str]], *, explained: bool, wants_room: bool
    ) -> Mapping[str, Any]:
        find = finder(self._service)
        request = parse_candidate_request(Pairs(list(given)), ALL_FEATURES, find)
        chosen = _chosen_flavor(given)
        # An explanation changes single conditions of the query, so it needs the one that the flavor stands for.
        given = list(with_flavor(Pairs(list(given)), find))
        require_groups(self._limits, request.groups)
        most = min(request.limit or _CANDIDATES, _CANDIDATES)
        # One more than shown tells whether the page leaves out any.
        snapshot, candidates = self._service.find(replace(request, limit=most + 1))
        req.note(candidates=len(candidates))
        answer: dict[str, Any] = {
            "candidates": [shown(snapshot, candidate) for candidate in candidates[:most]],
            "is_more": len(candidates) > most,
            "flavor": find(chosen) if chosen and may(req, "stead:flavors:show") else None,
            "written_out": urlencode(given),
        }
        if explained or not candidates:
            answer["why"] = self._why(req, given, request)
        if not candidates and wants_room and may(req, "stead:advice:show"):
            most = self._limits.claims
            answer["room"] = room_made(
                self._service.advice(request, 1, same_traits=False, same_aggregates=False, most=most)[0]
            )
        if candidates and may(req, "stead:headroom:show"):
            snapshot, _, room, _ = self._service.headroom(replace(request, limit=None))
            answer["headroom"] = room_for(snapshot, room)
        return answer

    def _choice_of_flavors(self, req: Request, chosen: str) -> Choice | None:
        """The flavors of the form; None if the policy does not list them to the caller."""
        if not may(req, "stead:flavors:list"):
            return None
        names = self._service.read(flavors.names, _FLAVORS + 1)
        return choice_of_flavors(names[:_FLAVORS], chosen, is_whole=len(names) <= _FLAVORS)

    def _why(self, req: Request, given: Sequence[tuple[str, str]], request: CandidateRequest) -> Why | None:
        if not may(req, "stead:allocation_candidates:explain"):
            return None
        snapshot, explanation = self._service.explain(request)
        return why(snapshot, explanation, given, request)

    def on_post(self, req: Request, resp: Response) -> None:
        """Claim one candidate for a new consumer.

        Raises:
            Refused: 403 if the web interface only reads, or the form is not from this session; 400 if it is malformed.
            Forbidden, AllocationRefused, ConsumerConflict, Unavailable
        """
        if not self._rendering.writes:
            raise Refused(403, "The web interface only reads ([stead] ui_writes).")
        form = read_own_form(req)
        req.require("placement:allocations:update", None)
        claim = _claim(form)
        require_allocations(self._limits, [claim])
        req.note(claims=1, asked=lambda: query_of([claim]))
        self._service.claim([claim])
        resp.status = "303 See Other"
        resp.set_header("location", f"{req.root_path}/ui/consumers?consumer={claim.consumer}")


def _chosen_flavor(given: Sequence[tuple[str, str]]) -> str:
    return next((value for key, value in given if key == _FLAVOR), "")


def _claim(form: Mapping[str, str]) -> Claim:
    """The claim in a form.

    Raises:
        Refused: 400
    """
    consumer = normalised_uuid(form.get("consumer", ""))
    project, user = form.get("project", "").strip(), form.get("user", "").strip()
    try:
        allocations = json.loads(form.get("allocations", ""))
    except ValueError:
        allocations = None
    if consumer is None or not (_is_name(project) and _is_name(user)) or not _are_allocations(allocations):
        raise Refused(400, "The form is incomplete: it needs a consumer, a project, a user and allocations.")
    consumer_type = form.get("consumer_type", "").strip() or "INSTANCE"
    if not (consumer_type.isascii() and consumer_type.replace("_", "").isalnum() and consumer_type.isupper()):
        raise Refused(400, "The type of a consumer has the characters A-Z, 0-9 and _.")
    return Claim(consumer, allocations, project, user, consumer_type[:255], None)


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 255 and text.isprintable()  # 255: the length of the column


def _are_allocations(value: object) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(
            is_strict(uuid)
            and isinstance(amounts, dict)
            and bool(amounts)
            and all(type(amount) is int and 0 < amount < 2**31 for amount in amounts.values())
            for uuid, amounts in value.items()
        )
    )


# The Ask page: a query as fields of a form, candidates on their trees, and an explanation with its ways out.


_GROUP_KEY = re.compile(rf"({'|'.join(sorted(GROUP_KEYS, key=len, reverse=True))})(.*)", re.DOTALL)
_NODES = 200
"""Limit of the providers of one candidate's tree that are shown."""


class Field(NamedTuple):
    """One field of the form, with what the query has for it."""

    name: str
    label: str
    value: str


class Group(NamedTuple):
    """The fields of one request group; the unsuffixed group has no suffix."""

    suffix: str
    fields: Sequence[Field]


_LABELS = {
    "resources": "Amounts",
    "required": "Traits",
    "member_of": "Aggregates",
    "in_tree": "In tree",
    "in_subtree": "Below",
    "limit": "Limit",
    "group_policy": "Group policy",
    "root_required": "Traits of the root",
    "root_member_of": "Aggregates of the root",
    "same_subtree": "Same subtree",
    "isolate": "Isolated groups",
    "can_split": "Amounts that may be split",
    "order_by": "Order",
}


def groups_of(given: Given) -> list[Group]:
    """The groups of a query, the unsuffixed one first, and an empty one to add."""
    suffixes = [""]
    for key, _ in given:
        match = _GROUP_KEY.fullmatch(key)
        if key not in REQUEST_KEYS and match and match[2] not in suffixes:
            suffixes.append(match[2])
    number = 1
    while f"_{number}" in suffixes:
        number += 1
    return [_group(given, suffix) for suffix in [*suffixes, f"_{number}"]]


def _group(given: Given, suffix: str) -> Group:
    return Group(suffix, [field for key in GROUP_KEYS for field in _fields(given, f"{key}{suffix}", _LABELS[key])])


def request_fields(given: Given) -> list[Field]:
    """The fields of the whole request."""
    return [field for key in REQUEST_KEYS for field in _fields(given, key, _LABELS[key])]


def classes_of(snapshot: Snapshot) -> list[dict[str, str]]:
    """The classes that have inventory, with their usual names, for the builder."""
    names = dict.fromkeys(snapshot.class_names.by_id[class_id].name for class_id in snapshot.inventory)
    return [{"name": name, "words": class_words(name)} for name in in_class_order(names)]


def _fields(given: Given, name: str, label: str) -> Iterator[Field]:
    """A field for each value of a key, or an empty one."""
    for value in [value for key, value in given if key == name] or [""]:
        yield Field(name, label, value)


def elsewhere(url: str, query: str) -> dict[str, str]:
    """The same question for the command line, curl and Python. *url* is that of this server, as the client has it."""
    versions = f"placement {NEWEST}, stead {NEWEST_STEAD}"
    return {
        "Command": f"stead --url {quote(url)} candidates {quote(query)}",
        "curl": (
            f'curl -H "X-Auth-Token: $TOKEN" -H {quote(f"OpenStack-API-Version: {versions}")} '
            f"{quote(f'{url}/allocation_candidates?{query}')}"
        ),
        "Python": f"stead.connect({url!r}, token).candidates({query!r})",
    }


class Choice(NamedTuple):
    """The flavors to choose from, and the one that the query names, empty if none.

    ``is_whole``: the names are those of all flavors, and of the chosen one even if it does not exist.
    """

    names: Sequence[str]
    chosen: str
    is_whole: bool


def choice_of_flavors(names: Sequence[str], chosen: str, *, is_whole: bool) -> Choice:
    """The choice among *names*; *is_whole*: no other flavors exist."""
    # A form that leaves out an unknown flavor would send another request than the one that the page is about.
    missing = [chosen] if chosen and chosen not in names else []
    return Choice([*names, *missing], chosen, is_whole)


class Shown(NamedTuple):
    """One candidate: its tree, the amounts by class that each provider gives (by uuid), and the same for a claim."""

    root: Node
    boxes: Sequence[Box]
    hidden: int
    given: Mapping[str, Mapping[str, int]]
    groups: Mapping[str, Sequence[str]]
    allocations: str


def shown(snapshot: Snapshot, candidate: Candidate) -> Shown:
    """A candidate on its tree: the providers that give or serve something, and all above them."""
    names = snapshot.class_names.by_id
    given = {
        snapshot.uuid(slot): {names[class_id].name: amount for class_id, amount in amounts.items()}
        for slot, amounts in candidate.allocations.items()
    }
    serving: dict[str, list[str]] = {}
    for suffix, slots in candidate.mappings.items():
        for slot in slots:
            if suffix:
                serving.setdefault(snapshot.uuid(slot), []).append(suffix)
    with_parents = set()
    for slot in {*candidate.allocations, *(slot for slots in candidate.mappings.values() for slot in slots)}:
        above: int = slot
        while above >= 0:
            with_parents.add(above)
            above = snapshot.forest.parent[above]
    roots = dict.fromkeys(snapshot.forest.root[slot] for slot in [candidate.members[0], *sorted(with_parents)])
    members = [member for root in roots for member in snapshot.forest.members(root)]
    visible = [member for member in members if member in with_parents][:_NODES]
    tree = list(nodes(snapshot, visible))
    return Shown(
        tree[0],
        boxes_of_candidate(tree, given),
        len(members) - len(visible),
        given,
        serving,
        json.dumps(given, sort_keys=True),
    )


class Step(NamedTuple):
    """One step of a funnel: how many remain of how many, in words of the query."""

    words: str
    left: int
    removed: int
    of: int


class Funnel(NamedTuple):
    """One funnel, with the providers that fail one constraint only: words, number, lacking amounts, and examples."""

    title: str
    noun: str
    in_play: int
    steps: Sequence[Step]
    misses: Sequence[tuple[str, int, str, Sequence[tuple[str, str]]]]


class WayOut(NamedTuple):
    """A changed request that has candidates; ``query`` is None if the change cannot be spelled."""

    words: str
    candidates: str
    query: str | None


class Why(NamedTuple):
    """An explanation."""

    summary: str
    candidates: str
    is_complete: bool
    parts: Sequence[Funnel]
    ways_out: Sequence[WayOut]


def why(snapshot: Snapshot, explanation: Explanation, given: Given, request: CandidateRequest) -> Why:
    """An explanation of *request*, whose query is *given*."""
    parts = []
    if explanation.root_steps:
        steps = [(_words(step.constraint), step.left, step.removed) for step in explanation.root_steps]
        parts.append(_part("Roots", "roots", explanation.roots, steps))
    for choice in explanation.choices:
        title = f"Providers of {choice.resource_class or f'group {choice.suffix}'}"
        misses = [
            (
                _words(miss.constraint),
                miss.providers,
                ", ".join(f"{number} lack {amount}" for amount, number in miss.lacking),
                [(snapshot.uuid(slot), snapshot.identities.names[slot]) for slot in miss.examples],
            )
            for miss in choice.misses
        ]
        steps = [(_words(step.constraint), step.left, step.removed) for step in choice.steps]
        parts.append(_part(title, "providers", choice.in_play, steps)._replace(misses=misses))
    steps = [(_words(lost.by), lost.left, lost.removed) for lost in explanation.trees.steps]
    parts.append(_part("Trees", "trees", explanation.trees.in_play, steps))
    ways_out = [_way_out(relaxation, count, given, request) for relaxation, count in explanation.relaxations]
    return Why(explanation.summary, _counted(explanation.candidates), explanation.is_complete, parts, ways_out)


class Moved(NamedTuple):
    """A consumer that would move: what it would leave and get, by uuid and name of the provider."""

    consumer: str
    project: str
    leaves: Sequence[tuple[str, str, Mapping[str, int]]]
    gets: Sequence[tuple[str, str, Mapping[str, int]]]


class Room(NamedTuple):
    """Which consumers to move so that a request fits once. ``moves`` is None if no plan was found."""

    moves: Sequence[Moved] | None
    is_impossible: bool


def room_made(advised: Advised) -> Room:
    """An advice in words. Allocations that stay as they are, are in neither list of a move."""
    snapshot = advised.snapshot
    names = snapshot.class_names.by_id

    def shares(amounts: Amounts, others: Amounts) -> list[tuple[str, str, Mapping[str, int]]]:
        return [
            (snapshot.uuid(slot), snapshot.identities.names[slot], {names[id_].name: each for id_, each in of.items()})
            for slot, of in sorted(amounts.items())
            if others.get(slot) != of
        ]

    moves = advised.advice.moves
    if moves is None:
        return Room(None, advised.advice.at_least is None)
    return Room(
        [
            Moved(
                move.holdings.consumer,
                advised.allocations[move.holdings.consumer].project,
                shares(move.holdings.amounts, move.amounts),
                shares(move.amounts, move.holdings.amounts),
            )
            for move in moves
        ],
        is_impossible=False,
    )


class HeadroomAnswer(NamedTuple):
    """How many times a request fits: the answer in words, what runs out first with the number of trees, what is left.

    ``rest`` has what is left of each class after the last claim. ``is_complete``: the work for one request sufficed.
    """

    times: str
    limits: Sequence[tuple[str, int]]
    rest: Mapping[str, int]
    is_complete: bool


def room_for(snapshot: Snapshot, headroom: Headroom) -> HeadroomAnswer:
    """A headroom in words."""
    least, most = headroom.at_least, headroom.at_most
    times = "time" if most == 1 else "times"
    answer = f"{least:,} {times}" if least == most else f"at least {least:,} and at most {most:,} {times}"
    limits = [(limit_words(limit.by), limit.trees) for limit in headroom.limited_by]
    names = snapshot.class_names.by_id
    rest = {names[class_id].name: amount for class_id, amount in headroom.stranded.items()}
    return HeadroomAnswer(answer, limits, rest, headroom.is_complete)


def limit_words(by: Constraint | tuple[str, str | None]) -> str:
    """What runs out first, in words of the query."""
    return words.limit_words(_record(by))


def _record(by: Constraint | tuple[str, str | None]) -> dict[str, Any]:
    """A constraint, or a group and its class, as the API has it."""
    if isinstance(by, Constraint):
        return {"parameter": by.parameter, "value": by.value, "check": by.check}
    return {"suffix": by[0], "resource_class": by[1]}


def _words(by: Constraint | tuple[str, str | None]) -> str:
    return words.constraint_words(_record(by))


def _counted(count: Count) -> str:
    return words.count_words({"candidates": count.number, "more": count.more})


def _part(title: str, noun: str, in_play: int, steps: Sequence[tuple[str, int, int]]) -> Funnel:
    return Funnel(title, noun, in_play, [Step(*step, in_play) for step in steps], ())


def _way_out(relaxation: Relaxation, count: Count, given: Given, request: CandidateRequest) -> WayOut:
    without, instead = relaxation.without, relaxation.instead
    change = {"without": without and _record(without), "with": instead and _record(instead)}
    # The change is made in the text, so the result is parsed: the link must be the request that was counted.
    pairs = relaxed(given, without, instead)
    return WayOut(
        words.relaxation_words(change),
        _counted(count),
        urlencode(pairs) if _means(pairs, relaxation.request, request) else None,
    )


def _means(given: Given, request: CandidateRequest, original: CandidateRequest) -> bool:
    """Whether a query stands for *request*, with the limit of the original."""
    try:
        parsed = parse_candidate_request(Pairs(list(given)), ALL_FEATURES)
    except InvalidQuery:
        return False
    return parsed == replace(request, limit=original.limit)


def relaxed(given: Given, without: Constraint | None, instead: Constraint | None) -> list[tuple[str, str]]:
    """A query with one constraint less, one more, or another."""
    pairs = list(given)
    if without is not None and instead is not None and instead.check == EACH:
        return _in_groups_of_one(pairs, without, instead)
    if without is not None:
        pairs = [(key, text) for key, value in pairs for text in _remaining(key, value, without, instead)]
        if instead is not None and without.parameter.startswith("resources"):
            return pairs
    if instead is not None:
        pairs.append((instead.parameter, instead.value))
    return pairs


def _in_groups_of_one(given: Given, without: Constraint, instead: Constraint) -> list[tuple[str, str]]:
    """A query whose group of a constraint is replaced by as many groups as its amount."""
    suffix, number = without.parameter.removeprefix("resources"), int(without.value.rpartition(":")[2])
    suffixes = [f"{suffix}_{place}" for place in range(1, number + 1)]
    pairs = []
    for key, value in given:
        word = key.removesuffix(suffix)
        if not suffix and key == "resources":
            if rest := [each for each in value.split(",") if each.strip() != without.value]:
                pairs.append((key, ",".join(rest)))
            pairs += [(key + one, instead.value) for one in suffixes]
        elif suffix and key.endswith(suffix) and word in GROUP_KEYS:
            pairs += [(word + one, instead.value if word == "resources" else value) for one in suffixes]
        elif key in ("same_subtree", "isolate"):
            named = [one for name in value.split(",") for one in (suffixes if name == suffix else [name])]
            pairs.append((key, ",".join(named)))
        else:
            pairs.append((key, value))
    if not {"group_policy", "isolate"} & {key for key, _ in pairs}:
        pairs.append(("group_policy", "none"))
    return pairs


def _remaining(key: str, value: str, without: Constraint, instead: Constraint | None) -> list[str]:
    """What remains of a value of *key*; empty if nothing does."""
    if key != without.parameter:
        return [value]
    if value == without.value:
        return [instead.value] if instead and key.startswith("resources") else []
    if value.startswith(("in:", "!in:")):
        return [value]
    terms = []
    for term in value.split(","):
        if term.strip() != without.value:
            terms.append(term)
        elif instead is not None:
            terms.append(instead.value)
    if terms == value.split(",") and not key.startswith(("resources", "required", "member_of", "same_subtree", "root")):
        return []  # a key with one value, such as group_policy
    return [",".join(terms)] if terms else []
