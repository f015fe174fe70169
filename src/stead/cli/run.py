"""``stead run``, ``stead ps`` and ``stead kill``: commands that have a place while they run.

A run is a consumer of its own, of type :data:`RUN`. Its project is the name of the run, its user ``LOGIN@HOST``, so
that every client sees who runs what and where.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shlex
import shutil
import socket
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import parse_qsl

import typer

from stead.cli.aliases import with_name
from stead.cli.arguments import options, read_seconds
from stead.cli.errors import CommandError, Negative
from stead.cli.guard import BY_SIGNAL, CANNOT_EXECUTE, Guard
from stead.cli.server import connect
from stead.cli.terminal import amount_text, draw_list, line_width, page_lines, print_json, say
from stead.client.calls import query_of
from stead.client.errors import LeaseLost, NothingFits, NothingFound, Stale, StartOver
from stead.client.request import Group, Request
from stead.printing import one_line, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from stead import Claim, Held, Provider, Site, Tree
    from stead.client.blocking.site import Hold

run_app = typer.Typer(add_completion=False)
ps_app = typer.Typer(add_completion=False)
kill_app = typer.Typer(add_completion=False)

RUN = "RUN"
"""The consumer type of runs."""

LOST = 3
"""The exit code if the lease was lost while the command ran."""

NOT_FOUND = 127
"""The exit code of a command that does not exist, as a shell has it."""

OWN_UUID = "CUSTOM_UUID_OF_DEVICE"
"""The trait of a provider whose uuid is that of the device; ``stead topology nvidia-smi`` sets it."""

_DEVICES = frozenset({"PGPU", "VGPU", "FPGA", "CUSTOM_MIG", "CUSTOM_ACCELERATOR"})
"""Classes of which each unit may be a provider of its own: several units are several groups."""

_INSTANCE = "CUSTOM_MIG"
_OF_GPUS = frozenset({"PGPU", "VGPU", "CUSTOM_GPU_SHARE", _INSTANCE})


@run_app.command(context_settings={"allow_interspersed_args": False})
def run(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="COMMAND", help="The command and its arguments.", show_default=False)
    ] = None,
    resources: Annotated[
        list[str] | None,
        typer.Option(
            "-r",
            "--resources",
            metavar="CLASS:N[,…]",
            help="Amounts to claim, such as PGPU:1. Those of one -r are of one provider; -r PGPU:2 is two devices.",
        ),
    ] = None,
    query: Annotated[str | None, typer.Option("-q", "--query", help="A candidate query to claim instead.")] = None,
    flavor: Annotated[str | None, typer.Option(help="Name of a flavor to claim instead.")] = None,
    near: Annotated[
        bool, typer.Option("--near", help="Take devices below one NUMA node or group, if several.")
    ] = False,
    wait: Annotated[
        str, typer.Option(help="How long to wait for room if nothing fits: seconds, or 10m. Default 0: do not wait.")
    ] = "0",
    lease: Annotated[
        str, typer.Option(help="How long the claim outlives this process, if it is killed: seconds, or 2m.")
    ] = "30s",
    grace: Annotated[
        str, typer.Option(help="Time between SIGTERM and SIGKILL if the lease is lost: seconds, or 1m.")
    ] = "10s",
    keep_running: Annotated[
        bool, typer.Option("--keep-running", help="Let the command run on if the lease is lost.")
    ] = False,
    name: Annotated[
        str | None, typer.Option(help="Name of the run, for `stead ps` and `stead kill`. Default: one with your login.")
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="HOST", help="Claim on this host only. Default: the host that is named as this machine, if any."
        ),
    ] = None,
    bind: Annotated[
        bool, typer.Option("--bind", help="Run on the CPUs, and with numactl the memory, of the claimed NUMA nodes.")
    ] = False,
    shell: Annotated[bool, typer.Option("--shell", help="Run your shell instead of a command.")] = False,
) -> None:
    """Run a command on a place that is claimed while it runs.

    The exit code is that of the command; 1 if nothing fits, 3 if the lease was lost.
    """
    patience = read_seconds("--wait", wait)
    seconds, mercy = read_seconds("--lease", lease), read_seconds("--grace", grace)
    words = _words(command, shell=shell)
    owner = f"{_login()}@{socket.gethostname()}"
    called = name or f"{_login()}-{secrets.token_hex(3)}"
    given = {"-r": resources or (), "-q": (query,) if query else (), "--flavor": (flavor,) if flavor else ()}
    asked = one_line(" ".join(f"{option} {value}" for option, values in given.items() for value in values))
    code, is_lost = LOST, False
    with Guard.forked() as guard, connect(may_open=True) as site:
        together = _places_of_devices(site) if near else ()
        request = _on_host(site, _request(resources or [], query, flavor, together), host)
        if name is not None:
            _require_free(site, name)
        hold = partial(site.hold, request, lease=seconds, project=called, user=owner, type=RUN, explain=False)
        try:
            with ExitStack() as block:
                claim = _enter(site, block, hold, asked, patience)
                parts = _parts(site, claim)
                words, cpus = _bound(words, parts) if bind else (words, None)
                guard.start(words, environment(claim, called, parts), cpus)
                code, is_lost = guard.wait(claim, mercy, keep_running=keep_running)
        except LeaseLost as error:
            print(f"stead: {one_line(str(error))}", file=sys.stderr)
        except (NothingFits, NothingFound) as error:
            from stead.cli.tree import require_named

            require_named(site, request)
            command_line = f"stead explain {shlex.quote(request)}"
            raise Negative(f"nothing fits {asked}; `{one_line(command_line)}` says why") from error
    raise typer.Exit(LOST if is_lost else code)


def _bound(words: list[str], parts: Sequence[Part]) -> tuple[list[str], set[int]]:
    """The command on the memory of the claimed nodes, if numactl is installed, and their CPUs."""
    nodes = nodes_of(parts)
    cpus = cpus_of(nodes)
    if shutil.which("numactl") is not None:
        return ["numactl", f"--membind={','.join(map(str, sorted(nodes)))}", "--", *words], cpus
    return words, cpus


def _words(command: list[str] | None, *, shell: bool) -> list[str]:
    """The command, whose program exists: otherwise a place would be claimed in vain."""
    if shell and command:
        raise CommandError("give either --shell or a command")
    words = [os.environ.get("SHELL") or "/bin/sh"] if shell else command
    if not words:
        raise CommandError("give a command, or --shell")
    if shutil.which(words[0]) is None:
        exists = os.sep in words[0] and Path(words[0]).exists()
        complaint = CommandError(f"{words[0]}: {'cannot be executed' if exists else 'command not found'}")
        complaint.exit_code = CANNOT_EXECUTE if exists else NOT_FOUND
        raise complaint
    return words


def _login() -> str:
    import getpass

    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


# What is claimed.


_PLACES = ("CUSTOM_NUMA_GROUP", "CUSTOM_NVLINK_DOMAIN", "CUSTOM_XGMI_DOMAIN", "CUSTOM_XELINK_DOMAIN")


def _places_of_devices(site: Site) -> list[str]:
    """Traits of providers below which devices are near each other; the server refuses those that it does not have."""
    return ["HW_NUMA_ROOT", *sorted({*site.traits("CUSTOM_")} & {*_PLACES})]


def _request(resources: Sequence[str], query: str | None, flavor: str | None, together: Sequence[str] = ()) -> str:
    """The query of what one of the three options says.

    Args:
        together: traits; one provider with one of them must be above all devices.
    """
    if sum(map(bool, (resources, query, flavor))) != 1:
        raise CommandError("give one of -r, -q and --flavor")
    if flavor:
        return f"{query_of(Request(flavor=flavor))}"
    if query:
        if together:
            raise CommandError("--near is for -r; write same_subtree into a query")
        return query_of(query)
    groups: list[dict[str, int]] = []
    anywhere: dict[str, int] = {}
    for text in resources:
        amounts = _amounts(text)
        (first, amount), *others = amounts.items()
        if first in _DEVICES and not others:
            groups += [{first: 1}] * amount
        elif others:
            groups.append(amounts)
        else:
            anywhere[first] = anywhere.get(first, 0) + amount
    if len(groups) > _MOST_DEVICES:
        raise CommandError(f"-r: {len(groups)} devices; at most {_MOST_DEVICES}")
    named = [Group(str(number), each) for number, each in enumerate(groups, start=1)]
    if together and named:
        named.append(Group("_near", required=[together]))
    unnamed = [Group(resources=anywhere)] if anywhere else []
    return query_of(Request(*unnamed, *named, near=bool(together and named)))


_MOST_DEVICES = 64


def _amounts(text: str) -> dict[str, int]:
    amounts: dict[str, int] = {}
    for pair in text.split(","):
        resource_class, _, amount = pair.strip().partition(":")
        if not resource_class or not (amount.isascii() and amount.isdigit() and 0 < int(amount) < 2**31):
            raise CommandError(f"-r {text}: expected CLASS:N, such as PGPU:1")
        if resource_class in amounts:
            raise CommandError(f"-r {text}: {resource_class} is given twice")
        amounts[resource_class] = int(amount)
    return amounts


def _on_host(site: Site, query: str, host: str | None) -> str:
    """*query*, only in the tree of the host.

    Raises:
        Negative: no provider has the name or UUID *host*.
    """
    keys = [key for key, _ in parse_qsl(query)]
    if any(key.startswith(("in_tree", "in_subtree")) for key in keys):
        return query
    if host is not None:
        from stead.cli.tree import find  # imported late: most runs start without it

        uuid: str | None = find(site, host).provider.uuid
    else:
        own = socket.gethostname()
        names = dict.fromkeys((own, own.partition(".")[0]))
        uuid = next((found.uuid for name in names for found in site.providers(name=name)), None)
    if uuid is None:
        return query
    suffixes = sorted({key.removeprefix("resources") for key in keys if key.startswith("resources")} or {""})
    return query + "".join(f"&in_tree{suffix}={uuid}" for suffix in suffixes)


def _require_free(site: Site, name: str) -> None:
    for running in site.claims(project=name, type=RUN):
        raise Negative(f"the name {name} is in use by {running.user}{_until(running)}; choose another one")


def _enter(site: Site, block: ExitStack, hold: Callable[[], Hold], asked: str, patience: float) -> Held:
    """Hold a place for *block*, after a wait if need be; says what it waits for, in the words of the options.

    Raises:
        NothingFits: there is none, also after the wait.
    """
    deadline = time.monotonic() + patience
    token: str | None = None
    while True:
        _end_if_interrupted()
        try:
            return block.enter_context(hold())
        except Stale:  # other claims were faster in all attempts of the server; there may be room
            if time.monotonic() >= deadline:
                raise
            continue
        except (NothingFits, NothingFound):
            if time.monotonic() >= deadline:
                raise
        if token is None:
            _say_who_has_it(site, asked, patience)
        token = _next_change(site, token, deadline)


def _next_change(site: Site, token: str | None, deadline: float) -> str | None:
    """Wait until something changes after *token*, or until the deadline; returns the newer token."""
    while time.monotonic() < deadline:
        _end_if_interrupted()
        try:
            changes = site.changes(token, wait=_SLICE if token else 0)
        except StartOver:
            return None
        if token is None or changes.changes:
            return changes.token
    return token


_SLICE = 1
"""Seconds of a wait between two looks for Ctrl-C."""


def _end_if_interrupted() -> None:
    """End with the signal that arrived, if one did. All are blocked: other threads must not take them."""
    number = Guard.interrupted()
    if number is not None:
        raise typer.Exit(BY_SIGNAL + number)


def _say_who_has_it(site: Site, asked: str, patience: float) -> None:
    print(f"stead: waiting up to {patience:g} s for {asked}", file=sys.stderr)
    for line in _rows(site, list(site.claims(type=RUN))[:_SHOWN]):
        print(f"stead:   {line}", file=sys.stderr)


_SHOWN = 20
"""Holders that a wait names."""


def _rows(site: Site, claims: Sequence[Claim]) -> Iterator[str]:
    """A line for each run: who has what until when."""
    names = site.names(uuid for claim in claims for uuid in claim.allocations)
    for claim in claims:
        yield printable(f"{claim.project} of {claim.user} has {_places(claim, names)}{_until(claim)}")


def _places(claim: Claim, names: Mapping[str, str]) -> str:
    return ", ".join(
        f"{amount_text(resource_class, amount)} {resource_class} of {names.get(uuid, uuid)}"
        for uuid, amounts in sorted(claim.allocations.items())
        for resource_class, amount in sorted(amounts.items())
    )


def _until(claim: Claim) -> str:
    """When it ends, in local time: a run that lives goes on to renew it."""
    return "" if claim.expires_at is None else f" until {_local(claim.expires_at)}, if it is not renewed"


def _local(moment: datetime) -> str:
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S")


# What the command sees.


@dataclass(frozen=True, slots=True)
class Part:
    """A provider of the claim, what was claimed of it, and the providers of its tree."""

    provider: Provider
    amounts: Mapping[str, int]
    tree: Tree


def _parts(site: Site, claim: Claim) -> list[Part]:
    """The providers of *claim*, in the order of its groups."""
    groups = [uuid for _, uuids in sorted(claim.mappings.items(), key=lambda each: _number(each[0])) for uuid in uuids]
    trees: list[Tree] = []
    parts = []
    for uuid in dict.fromkeys([*groups, *claim.allocations]):
        if uuid in claim.allocations:
            tree = next((each for each in trees if any(one.uuid == uuid for one in each)), None)
            if tree is None:
                tree = site.tree(uuid)
                trees.append(tree)
            parts.append(Part(next(one for one in tree if one.uuid == uuid), claim.allocations[uuid], tree))
    return parts


def _number(group: str) -> tuple[int, str]:
    return (int(group) if group.isascii() and group.isdigit() else 0, group)


def environment(claim: Claim, name: str, parts: Sequence[Part]) -> dict[str, str]:
    """The variables of the command: what it has, and the devices in the variables of their vendors."""
    variables = {}
    for vendor, (variable, address) in _VENDORS.items():
        cards = [part for part in parts if _OF_GPUS & part.amounts.keys() and _vendor(part.provider) == vendor]
        if cards:
            variables[variable] = ",".join(address(part) for part in cards)
        if cards and vendor == _NVIDIA and any(OWN_UUID not in _traits(part.provider) for part in cards):
            variables["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    told = {
        "consumer": claim.consumer,
        "name": name,
        "providers": [
            {
                "uuid": part.provider.uuid,
                "name": part.provider.name,
                "host": part.tree.root.name,
                "resources": dict(part.amounts),
                "traits": sorted(_traits(part.provider)),
            }
            for part in parts
        ],
    }
    return {**variables, "STEAD_CLAIM": json.dumps(told)}


_NVIDIA, _AMD, _INTEL = "10DE", "1002", "8086"


def _traits(provider: Provider) -> frozenset[str]:
    return provider.traits or frozenset()


def _vendor(provider: Provider) -> str | None:
    """The PCI id of the vendor of a GPU; an instance of MIG has no PCI function, and is of NVIDIA."""
    traits = _traits(provider)
    ids = [trait.split("_")[2] for trait in traits if trait.startswith("CUSTOM_PCI_")]
    if not ids and any(trait.startswith(("CUSTOM_GPU_NVIDIA", "CUSTOM_MIG_")) for trait in traits):
        return _NVIDIA
    return ids[0] if ids else None


def _cuda(part: Part) -> str:
    """As CUDA addresses it: by uuid, or else by its place among the GPUs of its host."""
    if OWN_UUID in _traits(part.provider):
        return f"{'MIG' if _INSTANCE in part.amounts else 'GPU'}-{part.provider.uuid}"
    return _place(part)


def _place(part: Part) -> str:
    """The number of a GPU among those of its vendor on its host, in the order of PCI addresses, which end the names."""
    vendor = _vendor(part.provider)
    cards = [each for each in part.tree if _PCI_NAME.search(each.name) and _vendor(each) == vendor]
    cards.sort(key=lambda each: each.name.rpartition("_")[2])
    if part.provider not in cards:
        raise CommandError(f"provider {part.provider.name} has no address: neither {OWN_UUID}, nor PCI in its name")
    return str(cards.index(part.provider))


_PCI_NAME = re.compile(r"_GPU_[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]$")

_VENDORS: dict[str, tuple[str, Callable[[Part], str]]] = {
    _NVIDIA: ("CUDA_VISIBLE_DEVICES", _cuda),
    _AMD: ("ROCR_VISIBLE_DEVICES", _place),
    _INTEL: ("ZE_AFFINITY_MASK", _place),
}


_NODE_NAME = re.compile(r"_NUMA([0-9]+(?:[-,][0-9]+)*)$")


def nodes_of(parts: Sequence[Part]) -> set[int]:
    """The NUMA nodes of what was claimed: the providers themselves, or the nearest ones above."""
    nodes: set[int] = set()
    for part in parts:
        by_uuid = {each.uuid: each for each in part.tree}
        here: Provider | None = part.provider
        while here is not None:
            if match := _NODE_NAME.search(here.name):
                nodes |= _ranges(match[1])
                break
            here = by_uuid.get(here.parent or "")
    return nodes


def _ranges(text: str) -> set[int]:
    numbers: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        numbers |= set(range(int(first), int(last or first) + 1))
    return numbers


_NODES = Path("/sys/devices/system/node")


def cpus_of(nodes: set[int], folder: Path = _NODES) -> set[int]:
    """The CPUs of these nodes that this process may use.

    Args:
        folder: has a folder for each node, as the kernel makes it.

    Raises:
        CommandError: there are none.
    """
    cpus: set[int] = set()
    for node in nodes:
        try:
            cpus |= _ranges((folder / f"node{node}" / "cpulist").read_text(encoding="ascii"))
        except (OSError, ValueError) as error:
            raise CommandError(f"--bind: cannot read the CPUs of NUMA node {node}: {error}") from error
    allowed = cpus & os.sched_getaffinity(0)
    if not allowed:
        raise CommandError("--bind: nothing of the claim is on a NUMA node with CPUs that this process may use")
    return allowed


# What runs.


@ps_app.command()
def ps(
    everyone: Annotated[bool, typer.Option("--all", help="List all consumers with a lease, not only runs.")] = False,
) -> None:
    """List runs: who runs what where, since when, until when."""
    with connect(may_open=True) as site:
        claims = [each for each in site.claims(type=None if everyone else RUN) if not everyone or each.expires_at]
        places = site.names(uuid for claim in claims for uuid in claim.allocations)
    claims.sort(key=lambda each: (each.project, each.consumer))
    records = [_record(claim, places) for claim in claims]
    if options().json:
        print_json({"runs": records}, records)
        return
    if not records:
        say("nothing runs")
        return
    headings = ("name", "user", "since", "until", "place")
    rows = [
        (
            with_name(claim.project),
            with_name(claim.user),
            "" if claim.created_at is None else _local(claim.created_at),
            "" if claim.expires_at is None else _local(claim.expires_at),
            _places(claim, places),
        )
        for claim in claims
    ]
    page_lines(draw_list(headings, rows, line_width()))


def _record(claim: Claim, names: Mapping[str, str]) -> dict[str, Any]:
    login, _, host = claim.user.rpartition("@")
    return {
        "name": claim.project,
        "consumer": claim.consumer,
        "user": login or host,
        "host": host if login else None,
        "since": None if claim.created_at is None else claim.created_at.isoformat(),
        "until": None if claim.expires_at is None else claim.expires_at.isoformat(),
        "allocations": {
            uuid: {"name": names.get(uuid, uuid), "resources": dict(amounts)}
            for uuid, amounts in claim.allocations.items()
        },
    }


@kill_app.command()
def kill(
    names: Annotated[list[str], typer.Argument(metavar="NAME", help="Names of runs, or UUIDs of their consumers.")],
) -> None:
    """Release what runs have, by force. `stead run` then ends their commands when it renews the lease."""
    with connect(may_open=True) as site:
        missing, released = [], []
        for name in names:
            claims = [each for each in site.claims(type=RUN) if name in (each.project, each.consumer)]
            places = site.names(uuid for claim in claims for uuid in claim.allocations)
            for claim in claims:
                site.release(claim.consumer)
                released.append(_record(claim, places))
                if options().json:
                    continue
                say(printable(f"released {claim.project} of {claim.user}: {_places(claim, places)}"))
            if not claims:
                missing.append(name)
        if options().json:
            print_json({"released": released}, released)
        if missing:
            raise Negative(f"no run has the name {', '.join(map(printable, missing))}; `stead ps` lists them")
