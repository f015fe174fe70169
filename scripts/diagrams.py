"""Draw the diagrams of the docs as SVG, which every browser shows without a network: part of `make docs`.

A graph has nodes on a grid, given by their column and row, and edges between them. A sequence has actors and messages.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTH, HEIGHT, GAP_X, GAP_Y = 150, 46, 34, 40
"""Of a node, and between nodes."""

LANE, STEP = 220, 40
"""Between the actors of a sequence, and between its messages."""

_STYLE = """\
<style>
text { font: 13px sans-serif; fill: #1f2933; text-anchor: middle; dominant-baseline: middle }
text.small { font-size: 11px; fill: #52606d }
rect { fill: #e6f4f1; stroke: #00796b }
rect.chosen { fill: #ffe9b8; stroke: #b7791f }
rect.page { fill: #ffffff; stroke: none }
path, line { stroke: #52606d; fill: none }
.dashed { stroke-dasharray: 5 4 }
</style>
<defs>
<marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto-start-reverse">
<path d="M0 0 L8 4 L0 8 z" style="fill: #52606d; stroke: none"/></marker></defs>
"""


@dataclass(frozen=True)
class Node:
    """A box: its text (a second line is small), its column and row, and whether it is highlighted."""

    text: str
    column: float
    row: float
    is_chosen: bool = False

    @property
    def left(self) -> float:
        return 10 + self.column * (WIDTH + GAP_X)

    @property
    def top(self) -> float:
        return 10 + self.row * (HEIGHT + GAP_Y)


@dataclass(frozen=True)
class Edge:
    """A line from the node of one name to another, with a label."""

    start: str
    end: str
    label: str = ""
    is_dashed: bool = False
    has_head: bool = True


@dataclass(frozen=True)
class Message:
    """An arrow between two actors; between one and itself, a note."""

    start: str
    end: str
    text: str


def _svg(width: float, height: float, title: str, parts: Iterator[str]) -> str:
    start = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img">\n'
        f"<title>{escape(title)}</title>\n{_STYLE}"
    )
    return start + f'<rect class="page" width="{width:g}" height="{height:g}"/>\n' + "\n".join(parts) + "\n</svg>\n"


def _box(left: float, top: float, width: float, text: str, style: str = "") -> Iterator[str]:
    yield f'<rect{style} x="{left:g}" y="{top:g}" width="{width:g}" height="{HEIGHT}" rx="5"/>'
    lines = text.split("\n")
    for number, line in enumerate(lines):
        y = top + HEIGHT / 2 + (number - (len(lines) - 1) / 2) * 16
        small = ' class="small"' if number else ""
        yield f'<text{small} x="{left + width / 2:g}" y="{y:g}">{escape(line)}</text>'


def graph(title: str, nodes: dict[str, Node], edges: list[Edge]) -> str:
    """Nodes by name, and the edges between them; between rows an edge leaves below, within a row at the side."""

    def parts() -> Iterator[str]:
        for edge in edges:
            start, end = nodes[edge.start], nodes[edge.end]
            style = (' class="dashed"' if edge.is_dashed else "") + (
                ' marker-end="url(#head)"' if edge.has_head else ""
            )
            if start.row == end.row:
                forward = start.left < end.left
                x1, x2 = (start.left + WIDTH, end.left) if forward else (start.left, end.left + WIDTH)
                y1 = y2 = start.top + HEIGHT / 2
            else:
                x1, x2 = start.left + WIDTH / 2, end.left + WIDTH / 2
                y1, y2 = (start.top + HEIGHT, end.top) if start.row < end.row else (start.top, end.top + HEIGHT)
            yield f'<line{style} x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"/>'
            if edge.label:
                yield f'<text class="small" x="{(x1 + x2) / 2:g}" y="{(y1 + y2) / 2 - 8:g}">{escape(edge.label)}</text>'
        for node in nodes.values():
            yield from _box(node.left, node.top, WIDTH, node.text, ' class="chosen"' if node.is_chosen else "")

    width = max(node.left for node in nodes.values()) + WIDTH + 10
    height = max(node.top for node in nodes.values()) + HEIGHT + 10
    return _svg(width, height, title, parts())


def sequence(title: str, actors: list[str], messages: list[Message]) -> str:
    """Actors side by side, and messages from top to bottom."""
    middles = {actor: 95 + number * LANE for number, actor in enumerate(actors)}
    height = HEIGHT + 30 + STEP * len(messages)

    def parts() -> Iterator[str]:
        for actor, middle in middles.items():
            yield f'<line class="dashed" x1="{middle}" y1="{HEIGHT}" x2="{middle}" y2="{height - 10}"/>'
            yield from _box(middle - 65, 5, 130, actor)
        for number, message in enumerate(messages):
            y = HEIGHT + 35 + number * STEP
            start, end = middles[message.start], middles[message.end]
            if start != end:
                yield f'<line marker-end="url(#head)" x1="{start}" y1="{y}" x2="{end}" y2="{y}"/>'
            label = f'y="{y - 9}">{escape(message.text)}</text>'
            yield f'<text class="small" x="{(start + end) / 2:g}" {label}'

    return _svg(190 + LANE * (len(actors) - 1), height, title, parts())


def _phases() -> str:
    names = ["query", "resolve", "match", "trees", "kinds", "combine", "order", "render"]
    nodes = {name: Node(name, place % 4, place // 4, name == "query") for place, name in enumerate(names)}
    edges = [Edge(start, end) for start, end in pairwise(names)]
    return graph("The phases of a candidate query", nodes, edges)


def _tree() -> str:
    nodes = {
        "host": Node("compute1\nroot provider", 1, 0),
        "numa0": Node("compute1_NUMA0\nPCPU, MEMORY_MB", 0.25, 1),
        "numa1": Node("compute1_NUMA1\nPCPU, MEMORY_MB", 2.25, 1),
        "nic": Node("NIC 16:00.0\nSRIOV_NET_VF", 0, 2),
        "gpu": Node("GPU 17:00.0\nPGPU", 1, 2),
        "nvme": Node("NVMe 82:00.0\nDISK_GB", 2.25, 2),
    }
    ends = [("host", "numa0"), ("host", "numa1"), ("numa0", "nic"), ("numa0", "gpu"), ("numa1", "nvme")]
    return graph("A provider tree", nodes, [Edge(start, end, has_head=False) for start, end in ends])


def _sharing() -> str:
    nodes = {
        "a": Node("compute1\nVCPU, MEMORY_MB", 0, 0),
        "b": Node("compute2\nVCPU, MEMORY_MB", 1, 0),
        "aggregate": Node("aggregate\nrack 5", 0.5, 1, is_chosen=True),
        "storage": Node("storage\nDISK_GB, shares", 0.5, 2),
    }
    edges = [Edge(name, "aggregate", is_dashed=True, has_head=False) for name in ("a", "b", "storage")]
    return graph("A sharing provider", nodes, edges)


def _candidate() -> str:
    nodes = {
        "host": Node("compute1", 1, 0),
        "numa0": Node("compute1_NUMA0\ngroup _A: 8 PCPU", 0.25, 1, is_chosen=True),
        "numa1": Node("compute1_NUMA1", 1.75, 1),
        "nic": Node("NIC 16:00.0\ngroup _N: 1 VF", 0.25, 2, is_chosen=True),
        "nic2": Node("NIC 81:00.0", 1.75, 2),
    }
    ends = [("host", "numa0"), ("host", "numa1"), ("numa0", "nic"), ("numa1", "nic2")]
    return graph("An allocation candidate", nodes, [Edge(start, end, has_head=False) for start, end in ends])


def _claim() -> str:
    client, server = "scheduler", "Stead"
    return sequence("PUT allocations, and a claim", [client, server], [
        Message(client, server, "GET /allocation_candidates"),
        Message(server, client, "candidates, generations"),
        Message(client, server, "PUT /allocations/{consumer}"),
        Message(server, client, "204, or 409: query again"),
        Message(client, client, "or in one request:"),
        Message(client, server, "POST /claims with the query"),
        Message(server, client, "200: the place, already claimed"),
    ])  # fmt: skip


def _refresh() -> str:
    first, database, second = "worker A", "database", "worker B"
    return sequence("The write and refresh protocol", [first, database, second], [
        Message(first, database, "BEGIN; lock, read, check"),
        Message(first, database, "change rows, then tick the clock"),
        Message(first, database, "COMMIT"),
        Message(database, first, "committed: A answers"),
        Message(second, database, "read the clock"),
        Message(database, second, "a slot has a newer tick"),
        Message(second, database, "read what changed"),
        Message(second, second, "publish snapshot, answer"),
    ])  # fmt: skip


def _stations() -> str:
    """Rows of five, alternately to the right and to the left, so that each arrow is short."""
    stations = [
        "reader\nwhole requests only", "admission\nwho is next: 503", "pool\na thread runs it", "Drain\nunread bodies",
        "Slices\nshort before long", "Prefix\nProxyHeaders", "Health\nprobes", "RequestLog\nid, line, metrics",
        "HeaderSizes\n431", "pages\n/ui", "KnownHosts\n403", "Compression, Cors\npreflights", "Concurrency\n503",
        "authentication\n401", "Negotiation\nversion: 400, 406", "Sizes\n413, 414", "Router\n404, 405",
        "gates\n404, 406, 415, 403", "handler\n400", "service",
    ]  # fmt: skip
    places = [(number % 5, number // 5) for number in range(len(stations))]
    nodes = {
        name: Node(name, 4 - column if row % 2 else column, row, name == "service")
        for name, (column, row) in zip(stations, places, strict=True)
    }
    return graph("The stations of a request", nodes, [Edge(start, end) for start, end in pairwise(stations)])


def _layers() -> str:
    nodes = {
        "api": Node("api/\nHTTP to values and back", 1, 0),
        "service": Node("service/\nsnapshots, transactions", 1, 1, is_chosen=True),
        "candidates": Node("candidates/\nqueries", 0, 2),
        "catalog": Node("catalog/\nthe snapshot", 1, 2),
        "store": Node("store/\nSQL, retries", 2, 2),
        "database": Node("database\nrows and the clock", 1, 3),
    }
    edges = [
        Edge("api", "service"), Edge("service", "candidates", "read"), Edge("service", "catalog"),
        Edge("service", "store", "write"), Edge("candidates", "catalog"), Edge("catalog", "database", "by store/feed"),
        Edge("store", "database"),
    ]  # fmt: skip
    return graph("The layers of a request", nodes, edges)


DIAGRAMS = {
    "candidate": _candidate,
    "claim": _claim,
    "layers": _layers,
    "phases": _phases,
    "refresh": _refresh,
    "sharing": _sharing,
    "stations": _stations,
    "tree": _tree,
}
"""What draws each file of docs/diagrams."""
