"""The GPUs of one machine, as ``nvidia-smi`` prints them, as providers below its host.

Three outputs describe a machine together: ``nvidia-smi -q -x`` has the cards and their MIG instances, ``topo -m`` their
links and NUMA nodes, and ``-L`` the uuids and profiles of the instances. docs/topology.md has the mapping as a table.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID
from xml.etree.ElementTree import ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser

from stead.domain.provider import MAX_INT, Inventory
from stead.topology.hwloc import Tree, custom
from stead.topology.site import Description, SiteError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

MAX_BYTES = 64 * 1024 * 1024
MAX_DEPTH = 100
MAX_CARDS = 1024
"""More cards, or instances of a card, than any machine has."""

COMMANDS = (("-q", "-x"), ("topo", "-m"), ("-L",))
"""Arguments of ``nvidia-smi``, whose outputs describe a machine together."""

WHOLE, SHARE, MEMORY, INSTANCE = "PGPU", "CUSTOM_GPU_SHARE", "CUSTOM_GPU_MEMORY_MB", "CUSTOM_MIG"

OWN_UUID = "CUSTOM_UUID_OF_DEVICE"
"""The trait of a provider whose uuid is that of the device, by which programs address it."""

_LINK = "NVLINK"
_NUMA_MEMORY = "CUSTOM_NUMA_MEMORY_ONLY"
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-9a-f])", re.IGNORECASE)
_CARD_UUID = re.compile(r"GPU-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.IGNORECASE)
_PCI_ID = re.compile(r"(?:0x)?([0-9a-f]{4})([0-9a-f]{4})", re.IGNORECASE)  # the device, then the vendor
_MEBIBYTES = re.compile(r"([0-9]{1,10}) MiB")
_LISTED_CARD = re.compile(r"GPU \d+: .*\(UUID: (GPU-[0-9a-f-]{36})\)")
_LISTED_INSTANCE = re.compile(r"\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: MIG-([0-9a-f-]{36})\)")
_CONTROLS = re.compile(r"\x1b\[[0-9;]*m")  # `topo -m` underlines its headings, also in a file
_NVLINKS = re.compile(r"NV[0-9]+")
_CARD_HEADING = re.compile(r"GPU[0-9]+")


@dataclass(frozen=True, slots=True)
class Instance:
    """A MIG instance. *uuid* and *profile* are None if no output of ``nvidia-smi -L`` names them."""

    index: int
    gpu_instance: str
    compute_instance: str
    mebibytes: int
    uuid: str | None = None
    profile: str | None = None


@dataclass(frozen=True, slots=True)
class Card:
    """A GPU.

    Attributes:
        address: of PCI, as lspci prints it.
        uuid: lower-case, without ``GPU-``.
        pci: vendor and device id; None if unknown.
        mebibytes: its memory; 0 if unknown.
        is_divided: whether it is in MIG mode: then it has *instances*, and cannot be used as a whole.
        numa: the index of the NUMA node that it is attached to; None if unknown, or if there are several.
    """

    address: str
    uuid: str
    index: int
    model: str
    serial: str
    pci: tuple[str, str] | None
    mebibytes: int
    is_divided: bool
    instances: tuple[Instance, ...]
    numa: int | None = None


@dataclass(frozen=True, slots=True)
class Cards:
    """All GPUs of a machine, and the groups of them that reach each other by NVLink; cards are named by index."""

    driver: str
    cards: tuple[Card, ...]
    linked: tuple[tuple[int, ...], ...] = ()


def read_cards(outputs: Sequence[tuple[str, bytes]]) -> Cards:
    """The GPUs that *outputs* of ``nvidia-smi`` on one machine describe, each with the name of its source.

    Raises:
        SiteError: one of them is no such output, none or several have the cards, or they contradict each other; the
            message names the source and the line.
    """
    cards: Cards | None = None
    later: list[tuple[str, str]] = []
    for source, data in outputs:
        if len(data) > MAX_BYTES:
            raise SiteError(f"{source}: larger than {MAX_BYTES // 1024 // 1024} MiB")
        if data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<"):
            if cards is not None:
                raise SiteError(f"{source}: the cards of another machine; describe one machine at a time")
            cards = _read_xml(data, source)
            continue
        try:
            later.append((source, _CONTROLS.sub("", data.decode("utf-8-sig"))))
        except UnicodeDecodeError as error:
            raise SiteError(f"{source}: no output of nvidia-smi: it is not UTF-8 text") from error
    if cards is None:
        names = ", ".join(source for source, _ in outputs)
        raise SiteError(f"{names}: no output of `nvidia-smi -q -x`, which has the cards")
    for source, text in later:
        if any(map(_LISTED_CARD.match, text.splitlines())):
            cards = _with_uuids(cards, text, source)
        elif any(_CARD_HEADING.match(line.lstrip("\t ")) for line in text.splitlines()):
            cards = _with_links(cards, text, source)
        else:
            raise SiteError(f"{source}:1: no output of `nvidia-smi -q -x`, `nvidia-smi topo -m` or `nvidia-smi -L`")
    return cards


# `nvidia-smi -q -x`


@dataclass(slots=True)
class _Element:
    """A `<gpu>` or a `<mig_device>`: the texts of the elements in it, by their path below it."""

    line: int
    name: str
    texts: dict[str, str] = field(default_factory=dict)
    devices: list[_Element] = field(default_factory=list)


class _Builder:
    """The parser's target: collects the texts of each card while the file is read."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._tags: list[str] = []
        self._text: list[str] = []
        self.parser: DefusedXMLParser | None = None
        self.cards: list[_Element] = []
        self.driver = ""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if not self._tags and tag != "nvidia_smi_log":
            raise self._error(f"no output of nvidia-smi: the outermost element is <{tag[:40]}>, not <nvidia_smi_log>")
        if len(self._tags) == MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} levels deep")
        self._tags.append(tag)
        self._text = []
        siblings = self.cards if self._tags[1:] == ["gpu"] else None
        if self._tags[1:] == ["gpu", "mig_devices", "mig_device"]:
            siblings = self.cards[-1].devices
        if siblings is not None:
            siblings.append(_Element(self._line, attributes.get("id", "")))
            if len(siblings) > MAX_CARDS:
                raise self._error(f"more than {MAX_CARDS:,} devices")

    def end(self, tag: str) -> None:  # noqa: ARG002  # the parser's signature
        match self._tags[1:]:
            case ["driver_version"]:
                self.driver = "".join(self._text).strip()
            case ["gpu", "mig_devices", "mig_device", *path] if path:
                self.cards[-1].devices[-1].texts.setdefault("/".join(path), "".join(self._text).strip())
            case ["gpu", *path] if path:
                self.cards[-1].texts.setdefault("/".join(path), "".join(self._text).strip())
        self._tags.pop()
        self._text = []

    def data(self, text: str) -> None:
        self._text.append(text)

    def close(self) -> None:
        """Do nothing at the end of the file."""

    @property
    def _line(self) -> int:
        expat = getattr(self.parser, "parser", None)
        return int(expat.CurrentLineNumber) if expat is not None else 1

    def _error(self, problem: str) -> SiteError:
        return SiteError(f"{self._source}:{self._line}: {problem}")


def _read_xml(data: bytes, source: str) -> Cards:
    builder = _Builder(source)
    parser = builder.parser = DefusedXMLParser(target=builder)
    try:
        parser.feed(data)
        parser.close()
    except DefusedXmlException as error:
        raise SiteError(f"{source}: declares XML entities, which nvidia-smi never does; refused") from error
    except ParseError as error:
        raise SiteError(f"{source}:{error.position[0]}: not XML of nvidia-smi: {error}") from error
    except (ValueError, LookupError) as error:
        raise SiteError(f"{source}: not XML of nvidia-smi: {error}") from error
    cards: list[Card] = []
    lines: dict[str, int] = {}
    for index, element in enumerate(builder.cards):
        card = _card(element, index, source)
        for key in (card.address, card.uuid):
            if key in lines:
                raise SiteError(f"{source}:{element.line}: {key} is described twice; first in line {lines[key]}")
            lines[key] = element.line
        cards.append(card)
    if not cards:
        raise SiteError(f"{source}: no GPU: `nvidia-smi` saw none when it wrote the file")
    return Cards(builder.driver, tuple(cards))


def _card(element: _Element, index: int, source: str) -> Card:
    place = f"{source}:{element.line}"
    address = _ADDRESS.fullmatch(element.name.strip())
    if address is None:
        raise SiteError(f"{place}: the id of the GPU, {element.name[:40]!r}, is not a PCI address")
    domain, *rest = (int(digits, 16) for digits in address.groups())
    texts = element.texts
    uuid = _CARD_UUID.fullmatch(texts.get("uuid", ""))
    if uuid is None:
        raise SiteError(f"{place}: the uuid of the GPU, {texts.get('uuid', '')[:60]!r}, is not GPU- and a uuid")
    pci = _PCI_ID.fullmatch(texts.get("pci/pci_device_id", ""))
    return Card(
        address="{:04x}:{:02x}:{:02x}.{:x}".format(domain, *rest),
        uuid=str(UUID(uuid[1])),
        index=index,
        model=_known(texts.get("product_name", "")),
        serial=_known(texts.get("serial", "")),
        pci=None if pci is None else (pci[2].upper(), pci[1].upper()),
        mebibytes=_mebibytes(texts),
        is_divided=texts.get("mig_mode/current_mig") == "Enabled",
        instances=tuple(_instance(device, source) for device in element.devices),
    )


def _instance(element: _Element, source: str) -> Instance:
    ids = [element.texts.get(key, "") for key in ("index", "gpu_instance_id", "compute_instance_id")]
    if not all(text.isascii() and text.isdigit() and len(text) < 6 for text in ids):
        raise SiteError(f"{source}:{element.line}: a MIG instance has no index, gpu_instance_id or compute_instance_id")
    return Instance(int(ids[0]), ids[1], ids[2], _mebibytes(element.texts))


def _known(text: str) -> str:
    """*text*; empty if it says that the driver does not know."""
    return "" if text in ("N/A", "[N/A]", "Unknown", "[Unknown Error]", "ERR!") else text


def _mebibytes(texts: Mapping[str, str]) -> int:
    memory = _MEBIBYTES.fullmatch(texts.get("fb_memory_usage/total", ""))
    return min(int(memory[1]), MAX_INT) if memory else 0


# `nvidia-smi -L`, and `nvidia-smi topo -m`


def _with_uuids(cards: Cards, text: str, source: str) -> Cards:
    """*cards* with the uuids and profiles of their MIG instances."""
    listed: dict[str, dict[int, tuple[str, str]]] = {}
    instances: dict[int, tuple[str, str]] = {}
    known = {card.uuid for card in cards.cards}
    for number, line in enumerate(text.splitlines(), start=1):
        if card := _LISTED_CARD.match(line):
            uuid = card[1].removeprefix("GPU-").lower()
            if uuid not in known:
                raise SiteError(f"{source}:{number}: no card {card[1]} in the output of `nvidia-smi -q -x`")
            instances = listed.setdefault(uuid, {})
        elif instance := _LISTED_INSTANCE.match(line):
            try:
                instances[int(instance[2])] = (str(UUID(instance[3])), instance[1])
            except ValueError:
                raise SiteError(f"{source}:{number}: MIG-{instance[3]} is not MIG- and a uuid") from None
        elif line.strip():
            raise SiteError(f"{source}:{number}: not a line of `nvidia-smi -L`: {line.strip()[:60]!r}")
    return replace(
        cards,
        cards=tuple(
            replace(
                card,
                instances=tuple(
                    replace(each, uuid=found[0], profile=found[1]) if (found := named.get(each.index)) else each
                    for each in card.instances
                ),
            )
            for card in cards.cards
            for named in [listed.get(card.uuid, {})]
        ),
    )


def _with_links(cards: Cards, text: str, source: str) -> Cards:
    """*cards* with their NUMA nodes and NVLinks."""
    rows = [(number, line.split("\t")) for number, line in enumerate(text.splitlines(), start=1)]
    start = next((place for place, (_, cells) in enumerate(rows) if _CARD_HEADING.match("".join(cells).strip())), 0)
    headings = [cell.strip() for cell in rows[start][1]]
    columns = {heading: place for place, heading in enumerate(headings) if _CARD_HEADING.fullmatch(heading)}
    if len(columns) != len(cards.cards):
        raise SiteError(
            f"{source}:{rows[start][0]}: {len(columns)} GPUs, but `nvidia-smi -q -x` has {len(cards.cards)}"
        )
    nodes: dict[int, int] = {}
    neighbours: defaultdict[int, set[int]] = defaultdict(set)
    seen = set()
    for number, row in rows[start + 1 :]:
        cells = [cell.strip() for cell in row]
        if cells[0] not in columns:
            continue
        here = int(cells[0][3:])
        seen.add(here)
        if here >= len(cards.cards) or len(cells) <= max(columns.values()):
            raise SiteError(f"{source}:{number}: not a row of `nvidia-smi topo -m`")
        neighbours[here] |= {int(name[3:]) for name, place in columns.items() if _NVLINKS.fullmatch(cells[place])}
        node = cells[headings.index("NUMA Affinity")] if "NUMA Affinity" in headings[: len(cells)] else ""
        if node.isascii() and node.isdigit() and len(node) < 6:
            nodes[here] = int(node)
    if len(seen) != len(columns):
        raise SiteError(f"{source}: {len(seen)} rows below {len(columns)} GPUs: cut short")
    numbered = [replace(card, numa=nodes.get(card.index)) for card in cards.cards]
    return replace(cards, cards=tuple(numbered), linked=tuple(_connected(neighbours)))


def _connected(neighbours: Mapping[int, set[int]]) -> Iterator[tuple[int, ...]]:
    """The groups of two or more cards that reach each other, by their first card."""
    left = sorted(neighbours)
    while left:
        group, waiting = set(), [left[0]]
        while waiting:
            here = waiting.pop()
            if here not in group:
                group.add(here)
                waiting += neighbours.get(here, ())
        left = [index for index in left if index not in group]
        if len(group) > 1:
            yield tuple(sorted(group))


# The providers.


def describe_cards(
    cards: Cards, host: str, present: Iterable[Description] = (), *, shares: int | None = None
) -> list[Description]:
    """The host with the GPUs of *cards* and their MIG instances below it, parents first.

    Args:
        present: what is known of the host and of the providers below it, as from hwloc or a server. The GPUs keep
            their places and uuids there, and everything else stays. If it has none of the GPUs, they become children of
            their NUMA nodes. Instances of the cards that no longer exist are reserved, so that they cannot be claimed.
        shares: number of claims that share a card, as `CUSTOM_GPU_SHARE` in place of `PGPU`; None: whole cards.
    """
    known = {each.name: each for each in present}
    parents: dict[str, str | None] = {host: None}
    tree = Tree(host, parents | {each.name: each.parent for each in known.values()})
    names = {card.index: f"{host}_GPU_{card.address}" for card in cards.cards}
    made: dict[str, Description] = {}
    for card in cards.cards:
        name = names[card.index]
        tree.parents.setdefault(name, _place(tree, card))
        tree.parents[name] = tree.parents[name] or host
        has_memory = any(each.parent == name and _NUMA_MEMORY in each.traits for each in known.values())
        made[name] = _of_card(card, name, shares, has_memory=has_memory)
        instances = {each.name: each for each in _of_instances(card, name)}
        for each in known.values():
            if each.parent == name and INSTANCE in each.inventories and each.name not in instances:
                instances[each.name] = replace(each, inventories=_reserved(each.inventories))
        made |= instances
        tree.parents |= dict.fromkeys(instances, name)
    if not any(f"CUSTOM_{_LINK}" in each.traits for each in known.values()):  # else they are known already
        tree.add_domains(_LINK, [[names[index] for index in group] for group in cards.linked])
    tree.traits[host].add("CUSTOM_HAS_GPU")
    return [_merged(known.get(name), made.get(name), name, tree) for name in _top_down(tree.parents)]


def _place(tree: Tree, card: Card) -> str:
    """The provider above a card: its NUMA node, which is added if no other source describes any."""
    if card.numa is None:
        return tree.host
    node = tree.nodes(1 << card.numa)
    if node not in tree.parents:
        tree.parents[node] = tree.host
        tree.traits[node].add("HW_NUMA_ROOT")
    return node


def _of_card(card: Card, name: str, shares: int | None, *, has_memory: bool) -> Description:
    """A card. Where it cannot be used as a whole, all of `PGPU` is reserved: an earlier run may have offered it."""
    whole = Inventory(1, reserved=int(card.is_divided or shares is not None))
    inventories = {WHOLE: whole}
    if shares is not None:
        inventories[SHARE] = Inventory(shares, reserved=shares if card.is_divided else 0)
    if card.mebibytes and not has_memory:  # else hwloc has it as a NUMA node below the card
        inventories[MEMORY] = Inventory(card.mebibytes, reserved=card.mebibytes if card.is_divided else 0)
    traits = {f"CUSTOM_PCI_{card.pci[0]}_{card.pci[1]}"} if card.pci else set()
    if card.model:
        traits.add(custom("GPU", card.model))
    return Description(name, card.uuid, inventories=inventories, traits=frozenset(traits))


def _of_instances(card: Card, name: str) -> Iterator[Description]:
    for each in card.instances:
        # The ids of instances are used again after the card is divided in another way; the uuids are not.
        label = each.uuid.partition("-")[0] if each.uuid else f"{each.gpu_instance}_{each.compute_instance}"
        traits = {custom("GPU", card.model)} if card.model else set()
        if each.profile:
            traits.add(custom("MIG", each.profile))
        memory = {MEMORY: Inventory(each.mebibytes)} if each.mebibytes else {}
        yield Description(f"{name}_MIG_{label}", each.uuid, name, {INSTANCE: Inventory(1), **memory}, frozenset(traits))


def _merged(known: Description | None, made: Description | None, name: str, tree: Tree) -> Description:
    before, described = known or Description(name), made or Description(name)
    inventories = {**before.inventories, **described.inventories}
    if made is not None and SHARE in before.inventories and SHARE not in made.inventories:
        inventories |= _reserved({SHARE: before.inventories[SHARE]})
    uuid = before.uuid or described.uuid
    traits = before.traits | described.traits | frozenset(tree.traits.get(name, ()))
    if described.uuid is not None and described.uuid == uuid:
        traits |= {OWN_UUID}
    return Description(
        name,
        uuid,
        tree.parents[name],
        inventories,
        traits,
        before.aggregates,
    )


def _reserved(inventories: Mapping[str, Inventory]) -> dict[str, Inventory]:
    return {name: replace(inventory, reserved=inventory.total) for name, inventory in inventories.items()}


def additions(described: Iterable[Description], present: Iterable[Description]) -> list[Description]:
    """What *described* has beyond *present*: applied to the server, it overwrites nothing that changed meanwhile."""
    known = {each.name: each for each in present}
    added = []
    for each in described:
        before = known.get(each.name)
        if before is None:
            added.append(each)
        elif each != before:
            changed = {
                name: inventory
                for name, inventory in each.inventories.items()
                if before.inventories.get(name) != inventory
            }
            added.append(replace(each, inventories=changed, traits=each.traits - before.traits))
    return added


def _top_down(parents: Mapping[str, str | None]) -> list[str]:
    """The names, each after its parent if that is one of them, otherwise in order."""

    def depth(name: str) -> int:
        parent = parents.get(name)
        return 0 if parent is None else 1 + depth(parent)

    return sorted(parents, key=depth)
