"""``python -m stead_bench.client``: one client of a throughput run, in its own process, so that its cost stays apart.

It reads a line of JSON (:class:`Order`) from stdin, prints ``ready``, waits for another line, works, and prints one
line of JSON (:class:`Outcome`).
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from random import Random
from typing import Any
from uuid import UUID

from stead_bench.asking import Connection
from stead_bench.claims import body
from stead_bench.errors import BenchError, Refused
from stead_bench.queries import host_in_zones
from stead_bench.sites import Site

READS_PER_CLAIM = 9
LIMIT = 10
APART = 1_000_003
"""Distance between the request numbers of two clients, so that all requests differ."""


@dataclass(frozen=True)
class Order:
    """The parameters of a client.

    Attributes:
        number: of the client.
        seed: for its choice among answers, and for its consumers.
    """

    url: str
    headers: dict[str, str]
    seconds: float
    hosts: int
    traits: int
    number: int
    seed: int


@dataclass
class Outcome:
    """The result: seconds of each successful read and claim, and the numbers of failures."""

    reads: list[float] = field(default_factory=list)
    claims: list[float] = field(default_factory=list)
    conflicts: int = 0
    empty: int = 0
    errors: list[str] = field(default_factory=list)


def work(order: Order) -> Outcome:
    """Query candidates nine times, claim one of the last answers, and repeat until the time is over."""
    outcome = Outcome()
    connection = Connection(order.url, order.headers)
    query = host_in_zones(Site("flat", order.hosts, order.traits))
    random = Random(f"{order.seed}/{order.number}")
    number = order.number * APART
    deadline = time.monotonic() + order.seconds
    while time.monotonic() < deadline:
        try:
            for _ in range(READS_PER_CLAIM):
                number += 1
                reply = connection.get(query.target(number, LIMIT))
                outcome.reads.append(reply.seconds)
            _claim(connection, json.loads(reply.body)["allocation_requests"], random, outcome)
        except BenchError as error:
            outcome.errors.append(str(error))
            if len(outcome.errors) > MOST_ERRORS:
                break
    connection.close()
    return outcome


MOST_ERRORS = 20


def _claim(connection: Connection, candidates: list[Any], random: Random, outcome: Outcome) -> None:
    if not candidates:
        outcome.empty += 1
        return
    chosen = random.choice(candidates)["allocations"]
    consumer = str(UUID(int=random.getrandbits(128), version=4))
    claim = body({provider: given["resources"] for provider, given in chosen.items()})
    began = time.perf_counter()
    try:
        connection.put(f"/allocations/{consumer}", claim)
    except Refused as refused:
        if refused.status != HTTPStatus.CONFLICT:
            raise
        outcome.conflicts += 1
    else:
        outcome.claims.append(time.perf_counter() - began)


def main() -> None:
    """Run the order on stdin."""
    order = Order(**json.loads(sys.stdin.readline()))
    print("ready", flush=True)
    sys.stdin.readline()
    print(json.dumps(asdict(work(order))), flush=True)


if __name__ == "__main__":
    main()
