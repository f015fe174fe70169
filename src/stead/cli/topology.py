"""``stead topology``: describes a site in a file, and makes the server match it."""

from __future__ import annotations

import re
import socket
import sys
from collections import Counter
from contextlib import contextmanager
from dataclasses import asdict
from itertools import count as numbers
from pathlib import Path  # Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stead.cli.arguments import name_of, options, read_file
from stead.cli.errors import NO, CommandError
from stead.cli.server import connect
from stead.cli.sites import (
    Manner,
    Outcome,
    Overcommits,
    SiteSnapshot,
    Watcher,
    apply_additions,
    apply_documents,
    has_documents,
    paused_collector,
    read_site,
    read_snapshot,
    rehearse,
)
from stead.cli.sites import apply_steps as apply_site
from stead.cli.terminal import (
    draw_counts,
    line_width,
    machine_readable,
    print_json,
    progress,
    say,
    show_lines,
)
from stead.client.calls import TREES
from stead.client.errors import NotFound
from stead.domain.provider import Inventory
from stead.printing import one_line, printable
from stead.topology.document import MAX_BYTES as MAX_SITE_BYTES
from stead.topology.document import as_data, dump, load
from stead.topology.hwloc import Options, Reserve, describe, omissions, reserve
from stead.topology.machine import MAX_BYTES, read_xml
from stead.topology.nvidia import COMMANDS, additions, describe_cards, read_cards
from stead.topology.nvidia import MAX_BYTES as MAX_OUTPUT
from stead.topology.plan import SetInventories
from stead.topology.provider_config import load_additions
from stead.topology.site import Description, Site, SiteError, site_of, write_allocations, write_inventories
from stead.topology.table import load_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import stead
    from stead.cli.sites import Holder
    from stead.cli.text import Text
    from stead.topology.plan import InventoryChange, Step

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Load, save and generate provider trees as files.")

Apply = Annotated[
    bool, typer.Option("--apply", help="Change the server's providers to match, instead of writing a site file.")
]

_NUMBER = re.compile(r"\{n(?::0(\d))?\}")
_SPLIT = "split it into several files, which form one site"
_SHARE_ALL = "all"
_PER_NODE = "node"
_PATIENCE = 60  # seconds for each run of nvidia-smi: without persistence mode, it starts the cards first


@app.command("apply")
def apply_files(
    files: Annotated[
        list[Path], typer.Argument(help="Site files, together one site; - reads standard input.", metavar="FILE")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")] = False,
    exact: Annotated[
        bool,
        typer.Option(
            "--exact", help="Remove inventories, traits and aggregates of the files' providers that the files lack."
        ),
    ] = False,
    prune: Annotated[
        bool,
        typer.Option(
            "--prune",
            help="As --exact, and delete providers that the files lack from the trees whose roots they describe.",
        ),
    ] = False,
    prune_all: Annotated[
        bool,
        typer.Option("--prune-all", help="As --prune, and delete all other trees of the server."),
    ] = False,
    allow_overcommit: Annotated[
        bool,
        typer.Option("--allow-overcommit", help="Also make inventories smaller than what is allocated from them."),
    ] = False,
) -> None:
    """Change the server's providers to match the files.

    Inventories in use are neither removed nor reduced below their use.
    """
    with _refusing(), paused_collector(), _watched() as watcher:
        described = _load(files, watcher)
        _apply(described, watcher, Manner(exact, prune, prune_all, allow_overcommit, dry_run))


def _apply(described: Site, watcher: Watcher, manner: Manner) -> None:
    """Change the server's providers to match, and print what changed."""
    with connect(may_open=True) as api:
        if has_documents(api):
            outcome = apply_documents(api, described, watcher, manner)
        else:
            outcome = _apply_steps(api, described, watcher, manner)
    _report(outcome, len(described.providers), dry_run=manner.dry_run)
    if outcome.overcommitted and not manner.allow_overcommit:
        raise Overcommits(outcome.overcommitted)
    if outcome.kept:
        raise typer.Exit(NO)


def _apply_steps(api: stead.Site, described: Site, watcher: Watcher, manner: Manner) -> Outcome:
    """Apply a site to a server that has nothing beyond the Placement API."""
    removals = {"exact": manner.exact, "prune": manner.prune_all, "prune_trees": manner.prune}
    if manner.dry_run:
        return rehearse(api, described, watcher, **removals)
    return apply_site(api, described, watcher, **removals, allow_overcommit=manner.allow_overcommit)


@app.command("dump")
def dump_site(
    allocations: Annotated[
        bool, typer.Option("--allocations", help="Write all consumers with their allocations too.")
    ] = False,
    as_csv: Annotated[
        bool,
        typer.Option("--csv", help="Write a table: a row per inventory, or with --allocations a row per allocation."),
    ] = False,
) -> None:
    """Write the server's providers as a site file, as they are at one moment."""
    with _refusing(), paused_collector():
        with connect() as api, _watched() as watcher:
            if has_documents(api):
                snapshot = read_snapshot(api, watcher, allocations=allocations)
            elif allocations:
                raise CommandError(f"--allocations requires Stead {TREES} or newer, which {api.url} is not")
            else:
                snapshot = SiteSnapshot(read_site(api, watcher))
        _write_snapshot(snapshot, as_csv=as_csv)


def _write_snapshot(snapshot: SiteSnapshot, *, as_csv: bool) -> None:
    holders = snapshot.holders
    if not as_csv:
        _write(snapshot.site, None if holders is None else [_holder_as_data(holder) for holder in holders])
    elif holders is None:
        write_inventories(snapshot.site, machine_readable())
    else:
        identities = (
            ((holder.uuid, holder.project, holder.user, holder.consumer_type), holder.allocations) for holder in holders
        )
        write_allocations(identities, machine_readable())


def _holder_as_data(holder: Holder) -> dict[str, Any]:
    return {
        "uuid": holder.uuid,
        "project_id": holder.project,
        "user_id": holder.user,
        "consumer_type": holder.consumer_type,
        "allocations": {name: dict(sorted(amounts.items())) for name, amounts in sorted(holder.allocations.items())},
    }


@app.command()
def hwloc(
    machines: Annotated[
        list[Path],
        typer.Argument(help="Output of `lstopo --of xml`; - reads standard input.", metavar="MACHINE.xml"),
    ],
    name: Annotated[
        str | None,
        typer.Option(
            help="Name of the host. {n} becomes 1, 2, 3, …; {n:02} becomes 01, 02, …. Default: the name in the file."
        ),
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=100_000, help="Number of hosts like each file.")] = 1,
    shared: Annotated[
        str, typer.Option(help="Hardware threads of a NUMA node that guests share, as VCPU; or all. The rest is PCPU.")
    ] = "0",
    vcpu_ratio: Annotated[float, typer.Option(min=0.0, max=1000.0, help="Allocation ratio of VCPU.")] = 1.0,
    aggregate: Annotated[list[str] | None, typer.Option(help="UUID of an aggregate of the hosts; repeatable.")] = None,
    reserve_memory: Annotated[
        str,
        typer.Option(
            metavar="MIB[:node]", help="Memory in MiB that each host keeps for itself; with :node, each NUMA node."
        ),
    ] = "0",
    reserve_cpus: Annotated[
        str,
        typer.Option(
            metavar="COUNT[:node]", help="Hardware threads that each host keeps for itself; with :node, each NUMA node."
        ),
    ] = "0",
    apply: Apply = False,
) -> None:
    """Convert output of lstopo to a site file: hosts, NUMA nodes, memory without CPUs, GPUs, NICs, NVMe disks."""
    has_one_name = count > 1 if name is None else len(machines) * count > 1 and not _NUMBER.search(name)
    if has_one_name:
        raise CommandError("several hosts need different names: give a --name with {n} in it")
    with _refusing():
        chosen = Options(_shared(shared), vcpu_ratio, frozenset(_uuid(uuid) for uuid in aggregate or ()))
        memory, cpus = _reserve("--reserve-memory", reserve_memory), _reserve("--reserve-cpus", reserve_cpus)
        following = numbers(1)
        descriptions: list[Description] = []
        left_out: list[tuple[str, str]] = []
        for path in machines:
            machine = read_xml(read_file(path, MAX_BYTES), name_of(path))
            left_out.extend((name_of(path), reason) for reason in omissions(machine))
            for _ in range(count):
                host = None if name is None else _numbered(name, next(following))
                descriptions.extend(reserve(describe(machine, host, chosen, source=name_of(path)), memory, cpus))
        _deliver(site_of(descriptions), apply=apply)
    for file, reason in dict.fromkeys(left_out):
        print(f"stead: warning: {printable(file)}: {one_line(reason)}", file=sys.stderr)


@app.command("csv")
def from_tables(
    files: Annotated[
        list[Path],
        typer.Argument(
            help="Tables with a row per provider, together one site; - reads standard input.", metavar="FILE"
        ),
    ],
    apply: Apply = False,
) -> None:
    """Convert tables to a site file: name, parent, uuid, traits, aggregates, and a column per resource class."""
    with _refusing():
        tables = (load_table(_text_of(path), name_of(path)) for path in files)
        _deliver(site_of([described for table in tables for described in table.providers.values()]), apply=apply)


@app.command("nvidia-smi")
def nvidia_smi(
    files: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Outputs of `nvidia-smi -q -x`, and of `topo -m` and `-L`, of one machine; - reads standard input. "
            "Default: run nvidia-smi.",
            metavar="FILE",
        ),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="Name of the host. Default: the name in --hwloc, or that of this machine.")
    ] = None,
    hwloc: Annotated[
        Path | None,
        typer.Option(
            metavar="MACHINE.xml", help="Output of `lstopo --of xml` on this machine: describe its other parts too."
        ),
    ] = None,
    shares: Annotated[
        int | None,
        typer.Option(min=1, max=1000, help="Number of claims that share a card, as CUSTOM_GPU_SHARE in place of PGPU."),
    ] = None,
    apply: Apply = False,
) -> None:
    """Convert output of nvidia-smi to a site file: GPUs, their memory, MIG instances, links and NUMA nodes."""
    with _refusing():
        machine = None if hwloc is None else read_xml(read_file(hwloc, MAX_BYTES), name_of(hwloc))
        if files and name is None and machine is None:
            raise CommandError("the files do not name the machine; give the name of the host with --name")
        host = name if name is not None or machine is not None else socket.gethostname()
        outputs = [(name_of(path), read_file(path, MAX_OUTPUT)) for path in files or ()]
        cards = read_cards(outputs or list(_outputs_of_nvidia_smi()))
        if machine is not None:
            known = describe(machine, host, source=name_of(hwloc or Path()))
            _deliver(site_of(describe_cards(cards, known[0].name, known, shares=shares)), apply=apply)
            return
        host = _host_name(host or "")
        known = _tree_on_server(host) if apply else []
        described = describe_cards(cards, host, known, shares=shares)
        _deliver(site_of(additions(described, known)), apply=apply)


@app.command("provider-yaml")
def provider_yaml(
    files: Annotated[
        list[Path],
        typer.Argument(help="nova's provider.yaml files for one host; - reads standard input.", metavar="FILE"),
    ],
    host: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Name of the host, which is $COMPUTE_NODE. Default: that of this machine."),
    ] = None,
    apply: Annotated[bool, typer.Option("--apply", help="Make the changes instead of printing them.")] = False,
) -> None:
    """Give providers the inventories and traits of nova's provider.yaml, and remove what left the files.

    Without --apply, the changes are printed.
    """
    own = socket.gethostname()
    hosts = [own, own.partition(".")[0]] if host is None else [_host_name(host)]
    with _refusing():
        additions = [each for path in files for each in load_additions(_text_of(path), name_of(path))]
        with connect(may_open=True) as api:
            if not has_documents(api):
                raise CommandError(f"provider-yaml requires Stead {TREES} or newer, which {api.url} is not")
            outcome = apply_additions(api, additions, list(dict.fromkeys(hosts)), dry_run=not apply)
    _report(outcome, len(additions), dry_run=not apply)
    if outcome.overcommitted:
        raise Overcommits(outcome.overcommitted, advice="release claims first")
    if outcome.kept:
        raise typer.Exit(NO)


def _host_name(text: str) -> str:
    name = text.strip()
    if not name:
        raise CommandError("the name of the host is empty; give one with --name")
    return name


def _outputs_of_nvidia_smi() -> Iterator[tuple[str, bytes]]:
    """What nvidia-smi of this machine prints."""
    import subprocess

    for words in COMMANDS:
        command = ["nvidia-smi", *words]
        source = " ".join(command)
        try:
            run = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=_PATIENCE, check=False)
        except FileNotFoundError:
            raise CommandError("no nvidia-smi on this machine; give files with its output") from None
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CommandError(f"{source}: {error}") from error
        if run.returncode:
            said = (run.stderr or run.stdout).decode(errors="replace")
            raise CommandError(f"{source} ended with {run.returncode}: {one_line(said)}")
        yield source, run.stdout


def _tree_on_server(host: str) -> list[Description]:
    """The tree of *host*, as the server has it; empty if the server does not have the host."""
    with connect(may_open=True) as api:
        try:
            tree = api.tree(host)
        except NotFound:
            return []
    names = {each.uuid: each.name for each in tree}
    return [
        Description(
            each.name,
            each.uuid,
            None if each.parent is None else names[each.parent],
            {name: Inventory(**asdict(inventory)) for name, inventory in (each.inventories or {}).items()},
            each.traits or frozenset(),
            each.aggregates or frozenset(),
        )
        for each in tree
    ]


def _deliver(site: Site, *, apply: bool) -> None:
    """Write *site* as a file, or make the server match it."""
    if not apply:
        _write(site)
        return
    with _watched() as watcher:
        _apply(site, watcher, Manner())


@contextmanager
def _refusing() -> Iterator[None]:
    """End the command as refused if a site cannot be used."""
    try:
        yield
    except SiteError as error:
        raise CommandError(str(error)) from error


def _load(files: list[Path], watcher: Watcher) -> Site:
    watcher.begin("reading files", len(files))
    descriptions: list[Description] = []
    for path in files:
        text = _text_of(path)
        # A failed `stead topology hwloc … > FILE` leaves an empty file. With --prune, it would delete all providers.
        if not text.strip():
            raise SiteError(f"{name_of(path)}: empty file. A site without providers is `providers: []`.")
        descriptions.extend(load(text, name_of(path)).providers.values())
        watcher.advance()
    return site_of(descriptions)


def _text_of(path: Path) -> str:
    try:
        return read_file(path, MAX_SITE_BYTES, _SPLIT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SiteError(f"{name_of(path)}: not a site file: it is not UTF-8 text") from error


def _numbered(template: str, number: int) -> str:
    return _NUMBER.sub(lambda match: f"{number:0{match[1] or 1}}", template)


def _shared(text: str) -> int | None:
    if text == _SHARE_ALL:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise CommandError(f"--shared takes a number of hardware threads or {_SHARE_ALL}, not {text!r}")
    return int(text)


def _reserve(option: str, text: str) -> Reserve:
    amount, colon, where = text.partition(":")
    is_number = amount.isascii() and amount.isdigit() and len(amount) < 10
    if not is_number or (colon and where != _PER_NODE):
        raise CommandError(f"{option} takes a number, or a number and :{_PER_NODE}, not {text!r}")
    return Reserve(int(amount), per_node=bool(colon))


def _uuid(text: str) -> str:
    from uuid import UUID

    try:
        return str(UUID(text))
    except ValueError:
        raise CommandError(f"--aggregate takes a UUID, not {text!r}") from None


def _write(site: Site, consumers: list[dict[str, Any]] | None = None) -> None:
    if options().json:
        print_json(as_data(site, consumers))
    else:
        machine_readable().write(dump(site, consumers))


@contextmanager
def _watched() -> Iterator[Watcher]:
    """A progress bar on stderr, as that of :func:`stead.cli.terminal.progress`, for one work after another."""
    with progress("") as advance:
        done = total = 0

        def begin(work: str, size: int) -> None:
            nonlocal done, total
            done, total = 0, size
            advance(done, total, work)

        def step() -> None:
            nonlocal done
            done += 1
            advance(done, total)

        yield Watcher(begin, step)


def _report(outcome: Outcome, described: int, *, dry_run: bool) -> None:
    if options().json:
        print_json(
            {
                "dry_run": dry_run,
                "described": described,
                "steps": [_as_json(step) for step in outcome.steps],
                "overcommitted": [
                    {"provider": overcommitted.provider, **_change_as_json(overcommitted.change)}
                    for overcommitted in outcome.overcommitted
                ],
                "kept": [
                    {
                        "provider": remaining.provider,
                        "resource_class": remaining.resource_class,
                        "reason": remaining.reason,
                    }
                    for remaining in outcome.kept
                ],
            }
        )
        return
    if dry_run:
        for step in outcome.steps:
            _show_step(step)
    show_lines(_summary(outcome, described, dry_run=dry_run))
    for remaining in outcome.kept:
        say(one_line(str(remaining)))
    for overcommitted in outcome.overcommitted:
        say(one_line(f"over-committed: {overcommitted}"))


def _show_step(step: Step) -> None:
    """Print a line for the step, and one for each inventory that it changes."""
    if not isinstance(step, SetInventories):
        say(one_line(str(step)))
        return
    say(one_line(f"set inventories of {step.name}:"))
    for change in step.changes:
        say(f"  {change}", indent=4)


def _as_json(step: Step) -> dict[str, Any]:
    shown = {"action": type(step).__name__, "name": step.name, "text": str(step)}
    if isinstance(step, SetInventories):
        return {**shown, "inventories": [_change_as_json(change) for change in step.changes]}
    return shown


def _change_as_json(change: InventoryChange) -> dict[str, Any]:
    """The complete records before and after; null if there is none."""
    before, after = (
        None if inventory is None else {**asdict(inventory), "capacity": inventory.capacity}
        for inventory in (change.before, change.after)
    )
    return {"resource_class": change.resource_class, "before": before, "after": after, "used": change.used}


_ROWS = {
    "CreateClass": "resource class(es) created",
    "CreateTrait": "trait(s) created",
    "CreateProvider": "provider(s) created",
    "MoveProvider": "provider(s) moved",
    "RenameProvider": "provider(s) renamed",
    "SetInventories": "provider(s) whose inventories changed",
    "SetTraits": "provider(s) whose traits changed",
    "SetAggregates": "provider(s) whose aggregates changed",
    "DeleteProvider": "provider(s) deleted",
}


def _summary(outcome: Outcome, described: int, *, dry_run: bool) -> Iterator[Text]:
    amounts = Counter(type(step).__name__ for step in outcome.steps)
    rows: list[tuple[int | None, str]] = [(described, "provider(s) described")]
    rows += [(amounts[action], words) for action, words in _ROWS.items() if amounts[action]]
    if not outcome.steps:
        rows.append((0, "changes: none; the server already matches"))
    if outcome.kept:
        rows.append((len(outcome.kept), "kept, although not described"))
    if dry_run:
        rows.append((None, "(a dry run: nothing was done)"))
        if outcome.parts > 1:
            # A change that needs one of another part, as a move below a new provider, may look different in the end.
            rows.append((None, f"({outcome.parts:,} parts, each compared with the site as it is now)"))
    return draw_counts(rows, line_width())
