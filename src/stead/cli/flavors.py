"""``stead flavor``: lists, stores and imports flavors, which are candidate queries with a name.

An import translates nova's flavors, the output of ``openstack flavor list -f json --long``, to what nova requests for
an instance of each.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, replace
from pathlib import Path  # noqa: TC003  # Typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import parse_qsl

import typer

from stead.cli.arguments import name_of, options, read_file
from stead.cli.candidates import QUERY_HELP
from stead.cli.errors import NO, CommandError
from stead.cli.headroom import bar_of, bounds_of
from stead.cli.server import connect, summary
from stead.cli.terminal import (
    GAP,
    beside,
    draw_counts,
    draw_list,
    lay_out,
    line_width,
    padded,
    page_lines,
    print_json,
    progress,
    read_all,
    say,
    show_lines,
    widest,
    wrapped,
)
from stead.cli.text import Text
from stead.client.candidate import limit_words
from stead.client.errors import Invalid, InvalidRequest, NotFound
from stead.client.request import Group, Request
from stead.domain.request import FLAVOR_NAME, FLAVOR_NAME_LENGTH
from stead.printing import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import stead
    from stead import Site

Json = dict[str, Any]

app = typer.Typer(add_completion=False)

_MAX_BYTES = 64 * 1024 * 1024

Name = Annotated[str, typer.Argument(metavar="FLAVOR", help="Name of the flavor.", show_default=False)]


@app.callback(invoke_without_command=True)
def flavors(context: typer.Context) -> None:
    """List, store and import flavors: requests with a name. Without a command, list them."""
    if context.invoked_subcommand is None:
        list_flavors()


@app.command("list")
def list_flavors(
    queries: Annotated[
        bool, typer.Option("--queries", help="Show queries instead of how many times each fits.")
    ] = False,
) -> None:
    """List flavors, with how many times each fits, and what runs out first.

    Each flavor is counted alone: a claim of one takes room from the others.
    """
    with connect() as site:
        listed = read_all("counting flavors", site.flavors(headroom=not queries))
    if options().json:
        print_json({"flavors": [flavor.document for flavor in listed]})
        return
    page_lines((draw_queries if queries else draw_flavors)(listed, line_width()))


@app.command()
def show(name: Name) -> None:
    """Show the query and the description of a flavor."""
    with connect() as site:
        flavor = site.flavor(name)
    if options().json:
        print_json(flavor.document)
    else:
        show_lines(draw_flavor(flavor, line_width()))


@app.command("set")
def set_flavor(
    name: Name,
    query: Annotated[str, typer.Argument(help=QUERY_HELP, show_default=False)],
    description: Annotated[
        str | None, typer.Option(help="One line for people. Default: that of the present flavor.")
    ] = None,
    weight: Annotated[
        float | None,
        typer.Option(
            metavar="NUMBER",
            min=0,
            help="How often it is requested, in proportion to the other flavors, for the order headroom. 0 leaves it "
            "out of the mix. Default: that of the present flavor.",
        ),
    ] = None,
) -> None:
    """Create a flavor, or replace its query."""
    with connect() as site:
        try:
            present: stead.Flavor | None = site.flavor(name)
        except NotFound:
            present = None
        if description is None:
            description = "" if present is None else present.description
        flavor = site.put_flavor(name, query, description, weight=weight)
    if options().json:
        print_json(flavor.document)
    else:
        say(f"{'created' if present is None else 'replaced'} {printable(name)}")


@app.command()
def delete(name: Name) -> None:
    """Delete a flavor. Claims that were made with it stay."""
    with connect() as site:
        site.delete_flavor(name)
    if options().json:
        print_json({"deleted": name})
    else:
        say(f"deleted {printable(name)}")


@app.command("import")
def import_flavors(
    file: Annotated[
        Path, typer.Argument(help="Output of `openstack flavor list -f json --long`; - reads standard input.")
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the changes without making them.")] = False,
) -> None:
    """Store nova's flavors: their amounts, and the extra specs that nova sends to Placement.

    Flavors that the file lacks stay. All other extra specs are ignored and listed. The description of a flavor names
    those by which nova also selects hosts. If an entry has `Instances`, a number, this becomes the weight. The exit
    code is 1 if a flavor was skipped.
    """
    described = _read(file)
    with connect() as site:
        has_weights = any(isinstance(flavor, Translated) and flavor.weight is not None for flavor in described)
        stored = {flavor.name: flavor for flavor in site.flavors(weights=has_weights)}
        steps = [_step(flavor, stored.get(flavor.name)) for flavor in described]
        if not dry_run:
            with progress("importing flavors") as advance:
                steps = _carry_out(site, steps, advance)
    if options().json:
        print_json({"dry_run": dry_run, "flavors": [asdict(step) for step in steps]})
    else:
        show_lines(draw_import(steps, line_width(), dry_run=dry_run))
    if any(step.action == "skip" for step in steps):
        raise typer.Exit(NO)


mix_app = typer.Typer(add_completion=False)


@mix_app.command()
def mix(
    forget: Annotated[
        bool, typer.Option("--forget", help="Forget what was learned. Flavors and weights stay.")
    ] = False,
) -> None:
    """Show the mix: the requests for which the order headroom leaves room.

    It consists of the flavors with a weight. If no flavor has one, the mix is learned from what clients request.
    """
    with connect() as site:
        if forget:
            site.forget_mix()
        present = site.mix()
    if options().json:
        print_json(present.document)
    else:
        page_lines(draw_mix(present, line_width()))


_SOURCES = {
    "weights": "the weights of flavors",
    "learned": "learned from what clients request",
    "flavors": "all flavors, each the same",
    "none": "no mix: no flavors, and few requests until now",
}


def draw_mix(mix: stead.Mix, width: int) -> Iterator[Text]:
    """The lines of a mix: where it is from, and the share of each form."""
    yield from wrapped(Text(_SOURCES.get(mix.source, printable(mix.source)), style="dim"), width, indent=GAP)
    rows = [(f"{form.share:.1%}", printable(form.flavor or form.query)) for form in mix.forms]
    if rows:
        yield from draw_list(("share", "form"), rows, width)


def _read(file: Path) -> list[Translated | Untranslated]:
    try:
        return read_flavors(read_file(file, _MAX_BYTES).decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise CommandError(f"{name_of(file)}: not UTF-8") from error
    except NotFlavors as error:
        raise CommandError(f"{name_of(file)}: {error}") from error


# An import: flavors that are new or whose query differs are stored.


_INCOMPLETE = re.compile(r"^At most, since nova also requires (?:\d+ extra specs|\S+(?:, \S+)*)\. ?")
_LONGEST = 255
"""Maximum length of a description in characters, on the server."""

Action = Literal["create", "replace", "keep", "skip"]


@dataclass(frozen=True, slots=True)
class Step:
    """What happens to one flavor: it is created or replaced, kept since it is the same, or skipped for a *reason*."""

    name: str
    action: Action
    query: str = ""
    reason: str = ""
    ignored: tuple[str, ...] = ()
    description: str = ""
    weight: int | None = None


def _step(flavor: Translated | Untranslated, stored: stead.Flavor | None) -> Step:
    if isinstance(flavor, Untranslated):
        return Step(flavor.name, "skip", reason=flavor.reason)
    described = _description(flavor, "" if stored is None else stored.description)
    is_same = (
        stored is not None
        and (stored.query, stored.description) == (flavor.query, described)
        and flavor.weight in (None, stored.weight)
    )
    action: Action = "create" if stored is None else "keep" if is_same else "replace"
    return Step(flavor.name, action, flavor.query, ignored=flavor.ignored, description=described, weight=flavor.weight)


def _description(flavor: Translated, present: str) -> str:
    """The description that says why a flavor fits less often than counted; that of a person stays behind it."""
    own = _INCOMPLETE.sub("", present)
    if not flavor.restricting:
        return own
    text = f"At most, since nova also requires {', '.join(flavor.restricting)}.{' ' if own else ''}{own}"
    if len(text) <= _LONGEST:
        return text
    return f"At most, since nova also requires {len(flavor.restricting)} extra specs.{' ' if own else ''}{own}"[
        :_LONGEST
    ]


def _carry_out(site: Site, steps: Sequence[Step], advance: Callable[[int, int | None], object]) -> list[Step]:
    """Do *steps*; those that the server refuses become skipped ones.

    Args:
        advance: called with the number of steps done and their number.
    """
    done: list[Step] = []
    for step in steps:
        try:
            if step.action in ("create", "replace"):
                site.put_flavor(step.name, step.query, step.description, weight=step.weight)
            done.append(step)
        except Invalid as error:
            done.append(replace(step, action="skip", reason=summary(error)))
        advance(len(done), len(steps))
    return done


# Nova's flavors as candidate queries.


_COLUMNS = ("Name", "VCPUs", "RAM", "Disk", "Ephemeral", "Swap", "Properties")
_MB_PER_GB = 1024

_OF_GROUP = re.compile(r"(resources|trait)([a-zA-Z0-9_-]{1,64})?:(.+)")
_PROPERTY = re.compile(r"([^=]+)='(.*?)'(?:, (?=[^=]+=')|$)", re.DOTALL)
"""One of ``key='value', key2='value2'``; a value may have commas and quotes in it."""

_RESTRICTING = re.compile(
    r"accel:device_profile|aggregate_instance_extra_specs:.*|capabilities:.*|hw:cpu_(cores|max_.*|sockets|threads)"
    r"|hw:mem_encryption_model|hw:mem_page_size|hw:numa_.*|hw:pci_numa_affinity_policy|hw:tpm_model"
    r"|pci_passthrough:alias"
)
"""Extra specs without a part in the query by which nova nevertheless selects hosts or devices."""

_TRUE = frozenset({"1", "on", "t", "true", "y", "yes"})
_THREADS = {"isolate": "forbidden", "require": "required"}
"""What `hw:cpu_thread_policy` says of the trait HW_CPU_HYPERTHREADING."""


class NotFlavors(Exception):
    """The text is not the output of the command; the message says where."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A flavor as a candidate query. *ignored* are the keys of extra specs that have no part in it.

    *weight* is the number of its instances, None if the file does not have it.
    """

    name: str
    query: str
    ignored: tuple[str, ...]
    weight: int | None = None

    @property
    def restricting(self) -> tuple[str, ...]:
        """The ignored keys by which nova selects hosts or devices: the flavor fits at most as often as counted."""
        return tuple(key for key in self.ignored if _RESTRICTING.fullmatch(key))


@dataclass(frozen=True, slots=True)
class Untranslated:
    """A flavor that has no query, and the reason."""

    name: str
    reason: str


class _Untranslatable(Exception):
    """The reason why a flavor has no query."""


def read_flavors(text: str) -> list[Translated | Untranslated]:
    """The flavors of the command's output, in its order.

    Raises:
        NotFlavors
    """
    try:
        records = json.loads(text)
    except ValueError as error:
        raise NotFlavors(f"not JSON: {error}") from error
    except RecursionError as error:
        raise NotFlavors("nested too deep for a list of flavors") from error
    if not isinstance(records, list):
        raise NotFlavors("not a list of flavors")
    flavors: dict[str, Translated | Untranslated] = {}
    for place, record in enumerate(records, 1):
        name = _name_of(place, record)
        try:
            if name in flavors:
                raise _Untranslatable("the file has two flavors of this name")
            flavors[name] = _translated(name, record)
        except (_Untranslatable, InvalidRequest) as error:
            flavors[name] = Untranslated(name, str(error))
    return list(flavors.values())


def _name_of(number: int, record: Any) -> str:
    if not isinstance(record, dict):
        raise NotFlavors(f"flavor {number} is not an object")
    for column in _COLUMNS:
        if column not in record:
            raise NotFlavors(f"flavor {number} has no {column}; use `openstack flavor list -f json --long`")
    return str(record["Name"])


def _translated(name: str, record: Json) -> Translated:
    if not re.fullmatch(FLAVOR_NAME, name) or len(name) > FLAVOR_NAME_LENGTH:
        raise _Untranslatable(
            f"a name has up to {FLAVOR_NAME_LENGTH} of the characters A-Z a-z 0-9 _ . : + -, a letter or a digit first"
        )
    specs = _extra_specs(record["Properties"])
    amounts: dict[str, dict[str, int]] = {"": _amounts(record)}
    traits: dict[str, dict[str, list[str]]] = {"required": {}, "forbidden": {}}
    ignored = []
    _translate_cpus(specs, amounts[""], traits)
    _translate_devices(specs, amounts[""], traits)
    policy = specs.pop("group_policy", "none")
    if policy not in ("none", "isolate"):
        raise _Untranslatable(f"group_policy is none or isolate, not {policy!r}")
    for key, value in specs.items():
        match = _OF_GROUP.fullmatch(key)
        if match is None:
            ignored.append(key)
            continue
        kind, group, term = match[1], match[2] or "", match[3]
        if kind == "resources":
            amounts.setdefault(group, {})[term] = _number(key, value)
        elif value in traits:
            traits[value].setdefault(group, []).append(term)
        else:
            raise _Untranslatable(f"{key} is required or forbidden, not {value!r}")
    requested = {
        group: nonzero for group, group_amounts in amounts.items() if (nonzero := _without_zeros(group_amounts))
    }
    required, forbidden = traits["required"], traits["forbidden"]
    for group in sorted({*required, *forbidden} - requested.keys()):
        raise _Untranslatable(f"it has traits for group {group!r}, but no resources")
    groups = [
        Group(group, group_amounts, required=required.get(group, ()), forbidden=forbidden.get(group, ()))
        for group, group_amounts in requested.items()
    ]
    instances = record.get("Instances")
    weight = None if instances is None else _number("Instances", instances)
    return Translated(name, str(Request(*groups, isolate=policy == "isolate")), tuple(sorted(ignored)), weight)


def _translate_cpus(specs: dict[str, str], amounts: dict[str, int], traits: dict[str, dict[str, list[str]]]) -> None:
    """Take the extra specs of CPUs from *specs*, and request what nova requests for them.

    Source: nova's page "Extra Specs", and what its scheduler sends for each.
    """
    policy = specs.pop("hw:cpu_policy", "shared")
    masks = [specs.pop(key, None) for key in ("hw:cpu_dedicated_mask", "hw:cpu_realtime_mask")]
    is_realtime = specs.pop("hw:cpu_realtime", "").lower() in _TRUE
    emulator, threads = specs.pop("hw:emulator_threads_policy", ""), specs.pop("hw:cpu_thread_policy", "")
    count = amounts.get("VCPU", 0)
    if policy == "mixed":
        mask = masks[0] or (masks[1] if is_realtime else None)
        if mask is None:
            raise _Untranslatable("hw:cpu_policy=mixed needs hw:cpu_dedicated_mask")
        dedicated = len(_masked(mask, count))
    elif policy == "dedicated":
        dedicated = count
    elif policy == "shared":
        return
    else:
        raise _Untranslatable(f"hw:cpu_policy is dedicated, mixed or shared, not {policy!r}")
    if not count:
        return
    others = {name: amount for name, amount in amounts.items() if name != "VCPU"}
    amounts.clear()
    # Nova reserves one dedicated CPU for the threads of the emulator.
    cpus = {"VCPU": count - dedicated, "PCPU": dedicated + (emulator == "isolate")}
    amounts.update({**_without_zeros(cpus), **others})
    if threads in _THREADS:
        traits[_THREADS[threads]].setdefault("", []).append("HW_CPU_HYPERTHREADING")


def _masked(mask: str, count: int) -> set[int]:
    """The CPUs of *mask*, among numbers from 0 to *count* - 1: `0-2,^1`; with exclusions only, all others."""
    included: set[int] = set()
    excluded: set[int] = set()
    for part in mask.split(","):
        match = re.fullmatch(r"\s*(\^)?(\d{1,4})(?:-(\d{1,4}))?\s*", part, re.ASCII)
        if match is None:
            raise _Untranslatable(f"a mask of CPUs is of the form 0-2,^1, not {mask!r}")
        (excluded if match[1] else included).update(range(int(match[2]), int(match[3] or match[2]) + 1))
    return (included or set(range(count))) & set(range(count)) - excluded


def _translate_devices(specs: dict[str, str], amounts: dict[str, int], traits: dict[str, dict[str, list[str]]]) -> None:
    """Take the extra specs of memory and firmware from *specs*, and request what nova requests for them."""
    required = traits["required"].setdefault("", [])
    for label in filter(None, specs.pop("hw:pmem", "").split(",")):
        namespace = f"CUSTOM_PMEM_NAMESPACE_{re.sub('[^A-Z0-9]', '_', label.strip().upper())}"
        amounts[namespace] = amounts.get(namespace, 0) + 1
    if specs.pop("hw:mem_encryption", "").lower() in _TRUE:
        amounts["MEM_ENCRYPTION_CONTEXT"] = 1
    if version := specs.pop("hw:tpm_version", ""):
        required.append(f"COMPUTE_SECURITY_TPM_{re.sub('[^0-9]', '_', version)}")
    if specs.pop("os:secure_boot", "") == "required":
        required.append("COMPUTE_SECURITY_UEFI_SECURE_BOOT")
    if not required:
        del traits["required"][""]


def _amounts(record: Json) -> dict[str, int]:
    """The amounts of a flavor before its extra specs, as nova requests them."""
    # Nova rounds swap up to whole gigabytes.
    swap = -(-_number("Swap", record["Swap"] or 0) // _MB_PER_GB)
    disk = _number("Disk", record["Disk"]) + _number("Ephemeral", record["Ephemeral"] or 0) + swap
    amounts = {"VCPU": _number("VCPUs", record["VCPUs"]), "MEMORY_MB": _number("RAM", record["RAM"]), "DISK_GB": disk}
    return _without_zeros(amounts)


def _without_zeros(amounts: dict[str, int]) -> dict[str, int]:
    """An amount of 0 means that the class is not requested."""
    return {name: amount for name, amount in amounts.items() if amount}


def _number(name: str, value: Any) -> int:
    text = str(value)
    if isinstance(value, bool) or not re.fullmatch("[0-9]{1,10}", text, re.ASCII):
        raise _Untranslatable(f"{name} is not a number of at least 0: {text!r}")
    return int(text)


def _extra_specs(properties: Any) -> dict[str, str]:
    """The extra specs, which newer clients write as an object and older ones as ``key='value', …``."""
    if properties is None:
        return {}
    if isinstance(properties, dict):
        return {str(key): str(value) for key, value in properties.items()}
    if not isinstance(properties, str):
        raise _Untranslatable("its Properties are neither an object nor text")
    specs: dict[str, str] = {}
    place = 0
    while place < len(properties):
        match = _PROPERTY.match(properties, place)
        if match is None:
            raise _Untranslatable(f"its Properties are not of the form key='value': {properties[place:]!r}")
        specs[match[1]] = match[2]
        place = match.end()
    return specs


# Drawing: what the commands show.


_HEADING = "flavor"
_NUMBER_HEADING = "fits"
_REASON_HEADING = "runs out first"
_MOST_BAR = 16
_LEAST_REASON = 20
_MOST_NAMED = 3


def draw_flavors(flavors: Sequence[stead.Flavor], width: int) -> Iterator[Text]:
    """The lines of flavors with their headroom: how many times each fits, a bar, and what runs out first."""
    if not flavors:
        yield Text("no flavors", style="dim")
        return
    rows = [(printable(flavor.name), *_headroom(flavor.document["headroom"])) for flavor in flavors]
    numbers = widest([_NUMBER_HEADING, *(bounds for _, bounds, _, _ in rows)])
    reasons = min(widest([_REASON_HEADING, *(reason for _, _, _, reason in rows)]), _LEAST_REASON)
    columns = lay_out([widest([name]) for name, _, _, _ in rows], numbers + GAP + reasons, width, most_bar=_MOST_BAR)
    most = max(amount for _, _, amount, _ in rows)
    gap = Text(" " * GAP)

    def details(bounds: str, bar: str, reason: str) -> Text:
        bar_column = gap + padded(Text(bar, style="green"), columns.bar) if columns.bar else Text()
        line = Text(f"{bounds:>{numbers}}") + bar_column + gap + Text(reason)
        line.rstrip()
        return line

    for line in beside(Text(_HEADING), [details(_NUMBER_HEADING, "", _REASON_HEADING)], columns):
        line.stylize("bold")
        yield line
    for (name, bounds, amount, reason), flavor in zip(rows, flavors, strict=True):
        yield from beside(Text(name), [details(bounds, bar_of(amount, most, columns.bar), reason)], columns)
        if flavor.description:
            note = Text(f"{' ' * GAP}{printable(flavor.description)}", style="dim")
            yield from wrapped(note, width, indent=GAP)


def _headroom(headroom: Json) -> tuple[str, int, str]:
    """The number as text and as a number, and the reason."""
    if "error" in headroom:
        return "–", 0, printable(headroom["error"])
    reasons = dict.fromkeys(printable(limit_words(limit)) for limit in headroom["limited_by"])
    words = ", ".join(reasons) if headroom["at_most"] else "nothing fits"
    return bounds_of(headroom), headroom["at_least"], words


def draw_queries(flavors: Sequence[stead.Flavor], width: int) -> Iterator[Text]:
    """The lines of flavors with their queries."""
    if not flavors:
        yield Text("no flavors", style="dim")
        return
    rows = [(flavor.name, flavor.query, flavor.description) for flavor in flavors]
    shown = 3 if any(flavor.description for flavor in flavors) else 2
    headings = (_HEADING, "query", "description")[:shown]
    yield from draw_list(headings, [row[:shown] for row in rows], width)


def draw_flavor(flavor: stead.Flavor, width: int) -> Iterator[Text]:
    """The lines of one flavor: its name, its description, and the parameters of its query."""
    title = Text(printable(flavor.name), style="bold")
    if flavor.description:
        title += Text(f"  {printable(flavor.description)}", style="not bold")
    yield from wrapped(title, width, indent=GAP)
    for key, value in parse_qsl(flavor.query, keep_blank_values=True):
        yield from wrapped(Text(f"{' ' * GAP}{printable(key)}={printable(value)}"), width, indent=2 * GAP)


_ACTIONS = {"create": "created", "replace": "replaced", "keep": "unchanged", "skip": "skipped"}


def draw_import(steps: Sequence[Step], width: int, *, dry_run: bool) -> Iterator[Text]:
    """The lines of an import: skipped flavors, ignored extra specs and sums; for a dry run also each change."""
    for line in _import_lines(steps, dry_run=dry_run):
        yield from wrapped(Text(printable(line)), width, indent=GAP)
    counts = Counter[str](step.action for step in steps)
    counted: list[tuple[int | None, str]] = [(len(steps), "flavor(s) described")]
    counted += [(counts[action], words) for action, words in _ACTIONS.items() if counts[action]]
    if dry_run:
        counted.append((None, "(a dry run: nothing was done)"))
    yield from draw_counts(counted, width)


def _import_lines(steps: Sequence[Step], *, dry_run: bool) -> Iterator[str]:
    for step in steps:
        if dry_run and step.action in ("create", "replace"):
            yield f"{step.action} {step.name}: {step.query}"
        if step.action == "skip":
            yield f"skipped {step.name}: {step.reason}"
    by_key: dict[str, list[str]] = {}
    for step in steps:
        for key in step.ignored:
            by_key.setdefault(key, []).append(step.name)
    for key, names in sorted(by_key.items()):
        more = f" and {len(names) - _MOST_NAMED:,} more" if len(names) > _MOST_NAMED else ""
        yield f"ignored {key} of {', '.join(names[:_MOST_NAMED])}{more}"
