"""``/provider_trees``: providers with all their data, read in pages of whole trees and written as documents."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from stead.api.bodies import read_body
from stead.api.conditional import is_current
from stead.api.errors import answering
from stead.api.gates import allowed, json_answer, json_body
from stead.api.query import pages
from stead.api.query.pairs import Pairs
from stead.api.query.provider_trees import parse_tree_query
from stead.api.representations import UNKNOWN, answer
from stead.api.resources.allocation_candidates import UNKNOWN_CLASSES
from stead.api.tree_columns import column_texts
from stead.api.tree_document import DOCUMENT
from stead.api.tree_outcome import REFUSALS, show_outcome
from stead.api.tree_text import totals_texts, tree_texts, whole_text
from stead.api.versions import S
from stead.candidates.provider_trees import count_providers, matching_trees, page_of, places_of, rows_of
from stead.candidates.tree_totals import tree_totals
from stead.domain.pages import Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from stead.api.limits import Limits
    from stead.api.query.provider_trees import TreesWanted
    from stead.api.request import Request, Response
    from stead.candidates.provider_trees import Roots, ShownTree
    from stead.catalog.snapshot import Snapshot
    from stead.service.service import Service

TREES = 1_000
"""Default number of trees in one page."""

MOST_TREES = 10_000
"""Maximum number of trees in one page."""

MOST_PROVIDERS = 20_000
"""Maximum number of providers in one page, unless its only tree has more."""


class ProviderTrees:
    """``/provider_trees``. Requires ``stead`` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service, limits: Limits) -> None:
        self._service = service
        self._limits = limits

    @json_answer
    @allowed("stead:provider_trees:list")
    @answering(UNKNOWN_CLASSES)
    def on_get(self, req: Request, resp: Response) -> None:
        """List provider trees with inventories, usages, traits and aggregates, in pages or as columns."""
        pairs = Pairs.of(req)
        parsed = parse_tree_query(pairs)
        # The token is older than the snapshot, so no change is missing between the answer and changes since the token.
        token = self._service.watchers.look(None).token if parsed.columns else ""
        snapshot, moment = self._service.view()
        if is_current(req, resp, moment):
            return
        roots = matching_trees(snapshot, parsed.query)
        if parsed.columns:
            answer(req, resp, b"".join(_columns(snapshot, roots, parsed, token)), modified=UNKNOWN)
            return
        page = Page(min(parsed.page.limit or TREES, MOST_TREES), parsed.page.marker)
        trees, goes_on = page_of(snapshot, roots, page, parsed.depth, MOST_PROVIDERS)
        links = pages.links(req, pairs, snapshot.uuid(trees[-1].root) if goes_on else None)
        answer(req, resp, b"".join(_document(snapshot, roots, trees, parsed, orjson.dumps(links))), modified=UNKNOWN)

    @json_body
    @allowed("stead:provider_trees:update")
    @answering(REFUSALS)
    def on_put(self, req: Request, resp: Response) -> None:
        """Replace provider trees: create, move, rename, change and delete providers in one transaction."""
        described = read_body(req, DOCUMENT)
        document = described.document(self._limits)
        plan = self._service.plan_trees(document) if described.dry_run else self._service.replace_trees(document)
        answer(req, resp, show_outcome(plan, dry_run=described.dry_run), modified=None)


def _columns(snapshot: Snapshot, roots: Roots, parsed: TreesWanted, token: str) -> Iterator[bytes]:
    rows = rows_of(snapshot, roots, parsed.depth)
    totals = tree_totals(snapshot, rows.roots) if parsed.totals else None
    counts = f'"tree_count":{len(roots)},"provider_count":{int(rows.sizes.sum())}'
    yield b'{"token":' + orjson.dumps(token) + f",{counts},".encode()
    if totals is not None:
        yield f'"totals":{whole_text(totals)},'.encode()
    yield from column_texts(snapshot, rows, parsed.fields, totals)
    yield b"}"


def _document(
    snapshot: Snapshot, roots: Roots, trees: Sequence[ShownTree], parsed: TreesWanted, links: bytes
) -> Iterator[bytes]:
    yield f'{{"tree_count":{len(roots)},"provider_count":{count_providers(snapshot, roots)},'.encode()
    sums = None
    if parsed.totals:
        totals = tree_totals(snapshot, roots)
        sums = totals_texts(totals, places_of(trees, roots))
        yield f'"totals":{whole_text(totals)},'.encode()
    yield b'"provider_trees":['
    for number, text in enumerate(tree_texts(snapshot, trees, parsed.fields, sums)):
        yield f",{text}".encode() if number else text.encode()
    yield b'],"links":' + links + b"}"
