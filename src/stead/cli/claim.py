"""``stead claim``: claim the first place where a request fits.

Between the answer and the claim somebody else may take the place. Then the service is asked again, a bounded number of
times, after a pause that grows and is random, so that those who collided do not collide again.
"""

from __future__ import annotations

import random
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.client import connect
from stead.cli.errors import ApiError, Negative, Unreachable
from stead.cli.options import options
from stead.cli.output import one_line, print_json, printable, show
from stead.cli.request import QUERY_HELP, ask, names_of, query_string

if TYPE_CHECKING:
    from stead.cli.client import Api
    from stead.cli.request import Candidate

app = typer.Typer(add_completion=False)

DEFAULT_TYPE = "INSTANCE"

TRIES = 10
_FIRST_PAUSE = 0.02  # seconds
_LONGEST_PAUSE = 1.0
_NO_TYPE = "unknown"  # how the API shows a consumer that was made before consumers had types


@dataclass(frozen=True, slots=True)
class Owner:
    """Who claims; *type* None keeps the type of a consumer that exists."""

    consumer: str
    project: str
    user: str
    type: str | None


@dataclass(frozen=True, slots=True)
class Claimed:
    """What was claimed, what the consumer held before (now given back), and how often it was tried."""

    candidate: Candidate
    replaced: dict[str, Any]
    tries: int


@app.command()
def claim(
    query: Annotated[str, typer.Argument(help=QUERY_HELP, show_default=False)],
    project: Annotated[str, typer.Option(help="The project that the claim counts for.")],
    user: Annotated[str, typer.Option(help="The user that the claim counts for.")],
    consumer: Annotated[
        uuid.UUID | None,
        typer.Option(help="Who holds the claim; what it held before is replaced. A new UUID, if not given."),
    ] = None,
    consumer_type: Annotated[
        str | None,
        typer.Option("--type", help=f"The consumer's type; {DEFAULT_TYPE} for a new consumer.", show_default=False),
    ] = None,
) -> None:
    """Claim the first place where a request fits, and try again if somebody else was faster."""
    owner = Owner(str(consumer or uuid.uuid4()), project, user, consumer_type)
    with connect() as api:
        claimed = claim_first(api, query, owner)
        names = names_of(api, [claimed.candidate])
    report(owner, claimed, names)


def claim_first(api: Api, query: str, owner: Owner, tries: int = TRIES) -> Claimed:
    """Ask, take the first candidate, claim it; again, up to *tries* times in all, if it was gone meanwhile.

    Raises:
        Negative: nothing fits, or others were faster every time.
        ApiError: the service refused for another reason. A consumer that somebody else changes at the same time is one:
            to try again would undo what they were told is theirs.
        Unreachable: the connection broke; whether the claim was written is unknown.
    """
    question = query_string(query, limit=1)
    for tried in range(1, tries + 1):
        held = api.get(f"/allocations/{owner.consumer}")
        found = ask(api, question, held["allocations"])
        if not found:
            raise Negative(f"nothing fits {one_line(query)}")
        try:
            put(api, owner, held, found[0])
        except ApiError as error:
            if not error.is_conflict or "consumer generation conflict" in error.detail:
                raise
            refusal = error
            time.sleep(pause(tried))
        else:
            return Claimed(found[0], held["allocations"], tried)
    raise Negative(f"others were faster {tries} times; the last refusal: {refusal}")


def put(api: Api, owner: Owner, held: dict[str, Any], candidate: Candidate) -> None:
    """Write *candidate* in place of what *owner* has *held*, as ``GET /allocations`` showed it."""
    known_type = held.get("consumer_type", _NO_TYPE)
    body = {
        **candidate.allocation_request,
        "project_id": owner.project,
        "user_id": owner.user,
        "consumer_type": owner.type or (DEFAULT_TYPE if known_type == _NO_TYPE else known_type),
        "consumer_generation": held.get("consumer_generation"),
    }
    try:
        api.put(f"/allocations/{owner.consumer}", body)
    except Unreachable as error:
        raise Unreachable(f"{error}; whether consumer {owner.consumer} holds its claim is unknown") from error


def pause(tried: int) -> float:
    """Seconds to wait after the try with this number: random, up to a bound that doubles."""
    return random.uniform(0, min(_FIRST_PAUSE * 2**tried, _LONGEST_PAUSE))


def report(owner: Owner, claimed: Claimed, names: dict[str, str]) -> None:
    """Say what *owner* holds now."""
    from stead.cli.candidate_table import candidate_as_json, draw_claim

    if options().json:
        print_json(
            {
                "consumer": owner.consumer,
                "tries": claimed.tries,
                "replaced": claimed.replaced,
                **candidate_as_json(claimed.candidate, names),
            }
        )
        return
    again = f", at try {claimed.tries}" if claimed.tries > 1 else ""
    instead = ", in place of what it held" if claimed.replaced else ""
    print(f"claimed for consumer {printable(owner.consumer)}{instead}{again}\n")
    show(draw_claim(claimed.candidate, names))
