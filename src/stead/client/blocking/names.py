# Generated from stead/client/aio/names.py by `python -m scripts.twins`. Change that file.
"""Names of providers beside their uuids, cached and kept true by GET ``/changes``."""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from stead.client import calls
from stead.client.errors import NotAllowed, NotFound, StartOver

if TYPE_CHECKING:
    from collections.abc import Iterable

    from stead.client.blocking.calling import Calling

FRESH_SECONDS = 1.0
"""A name may be this old."""

FEW = 16
"""For more unknown providers, the names of all are read, in pages."""

MOST = 200_000
"""Names in the cache."""


class Names:
    """A cache of names by uuid."""

    def __init__(self, calling: Calling) -> None:
        """It is empty."""
        self._calling = calling
        self._names: dict[str, str] = {}
        self._token: str | None = None
        self._checked = -FRESH_SECONDS  # on a clock that may begin at 0

    def of(self, providers: Iterable[str]) -> dict[str, str]:
        """The name of each provider that exists. Costs nothing for those that are known since less than a second."""
        requested = list(dict.fromkeys(providers))
        # Before the reads: a name that changes after this token is discarded by the next call.
        self._forget_changed()
        unknown = [uuid for uuid in requested if uuid not in self._names]
        if len(unknown) > FEW:
            self._read({})
        else:
            for uuid in unknown:
                if uuid not in self._names:  # a tree may have several of them
                    self._read({"in_tree": uuid})
        return {uuid: self._names[uuid] for uuid in requested if uuid in self._names}

    def _forget_changed(self) -> None:
        if monotonic() < self._checked + FRESH_SECONDS:
            return
        # Before the call: a change can happen after the server answers and before the answer arrives.
        checked = monotonic()
        try:
            body = (self._calling.send(calls.changes(self._token, 0))).json()
            for record in body["providers"]:
                self._names.pop(record["uuid"], None)
        except NotAllowed:  # the client may see providers, but not their changes
            self._names.clear()
            self._checked = checked
            return
        except StartOver:
            body = (self._calling.send(calls.changes(None, 0))).json()
            self._names.clear()
        self._token, self._checked = body["token"], checked

    def _read(self, filters: dict[str, str]) -> None:
        if len(self._names) > MOST:
            self._names.clear()
        try:
            for body in self._calling.pages(calls.trees({"fields": "name", **filters})):
                for tree in body["provider_trees"]:
                    self._names.update((provider["uuid"], provider["name"]) for provider in tree["providers"])
        except NotFound:
            return
