"""``/provider_trees``: providers with all that they have, in pages of whole trees."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import orjson

from stead.api.conditional import is_current
from stead.api.errors import answering
from stead.api.gates import allowed, json_answer
from stead.api.query import pages
from stead.api.query.pairs import Pairs
from stead.api.query.provider_trees import parse_tree_query
from stead.api.representations import UNKNOWN, answer
from stead.api.resources.allocation_candidates import UNKNOWN_CLASSES
from stead.api.tree_text import totals_texts, tree_texts, whole_text
from stead.api.versions import S
from stead.candidates.provider_trees import count_providers, matching_trees, page_of
from stead.candidates.tree_totals import tree_totals
from stead.domain.pages import Page

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

    from stead.api.query.provider_trees import TreesWanted
    from stead.api.request import Request, Response
    from stead.candidates.provider_trees import ShownTree
    from stead.catalog.snapshot import Snapshot
    from stead.service.service import Service

TREES = 1_000
"""Trees in one page, if the query does not say."""

MOST_TREES = 10_000
"""Trees in one page, whatever the query says."""

MOST_PROVIDERS = 20_000
"""Providers shown in one page, unless its only tree has more."""


class ProviderTrees:
    """``/provider_trees``. Only for requests that ask for ``stead`` 1.1."""

    stead_since = S.PROVIDER_TREES

    def __init__(self, service: Service) -> None:
        self._service = service

    @json_answer
    @allowed("stead:provider_trees:list")
    @answering(UNKNOWN_CLASSES)
    def on_get(self, req: Request, resp: Response) -> None:
        """List provider trees with inventories, usages, traits and aggregates, in pages of whole trees."""
        pairs = Pairs.of(req)
        wanted = parse_tree_query(pairs)
        snapshot, moment = self._service.view()
        if is_current(req, resp, moment):
            return
        roots = matching_trees(snapshot, wanted.query)
        page = Page(min(wanted.page.limit or TREES, MOST_TREES), wanted.page.marker)
        trees, goes_on = page_of(snapshot, roots, page, wanted.depth, MOST_PROVIDERS)
        links = pages.links(req, pairs, snapshot.uuid(trees[-1].root) if goes_on else None)
        answer(req, resp, b"".join(_document(snapshot, roots, trees, wanted, orjson.dumps(links))), modified=UNKNOWN)


def _document(
    snapshot: Snapshot, roots: NDArray[np.int64], trees: Sequence[ShownTree], wanted: TreesWanted, links: bytes
) -> Iterator[bytes]:
    yield f'{{"tree_count":{len(roots)},"provider_count":{count_providers(snapshot, roots)},'.encode()
    sums = None
    if wanted.totals:
        totals = tree_totals(snapshot, roots)
        sums = totals_texts(totals, np.searchsorted(roots, [tree.root for tree in trees]).tolist())
        yield f'"totals":{whole_text(totals)},'.encode()
    yield b'"provider_trees":['
    for number, text in enumerate(tree_texts(snapshot, trees, wanted.fields, sums)):
        yield f",{text}".encode() if number else text.encode()
    yield b'],"links":' + links + b"}"
