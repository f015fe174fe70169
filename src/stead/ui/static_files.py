"""``/ui/static/``: the files of the package, with their types and their caching.

A path with the version of the files may be cached forever. The same file without version has an ETag.
"""

from __future__ import annotations

import gzip
import hashlib
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple

import falcon

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.resources.abc import Traversable

    from stead.api.request import Request, Response

TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "json": "application/json",
    "map": "application/json",
    "md": "text/plain; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
    "txt": "text/plain; charset=utf-8",
}
"""Media type by suffix. Files with other suffixes are not served."""

_SMALLEST_COMPRESSED = 1024


class File(NamedTuple):
    """One file: its bytes, the same as gzip if that is smaller, its media type and its ETag."""

    body: bytes
    compressed: bytes | None
    media_type: str
    etag: str


class StaticFiles:
    """The files by their path below ``/ui/static/``. A request can name nothing but these."""

    @cached_property
    def _files(self) -> Mapping[str, File]:
        """Read at the first request: commands that serve nothing do not need them."""
        return {path: _read(path, file.read_bytes()) for path, file in _found(files("stead.ui") / "static", "")}

    @cached_property
    def version(self) -> str:
        """A text that changes whenever a file changes."""
        etags = "".join(f"{path}{file.etag}" for path, file in sorted(self._files.items()))
        return f"v-{hashlib.sha256(etags.encode()).hexdigest()[:12]}"

    def serve(self, req: Request, resp: Response, path: str) -> None:
        """Answer with the file at *path*, which may begin with the version.

        Raises:
            falcon.HTTPNotFound: no such file.
        """
        first, _, rest = path.partition("/")
        is_versioned = first.startswith("v-")
        file = self._files.get(rest if is_versioned else path)
        if file is None:
            raise falcon.HTTPNotFound
        # An old version may be in a page that was loaded before an upgrade: it gets the present file, briefly.
        lasting = "public, max-age=31536000, immutable"
        resp.cache_control = [lasting if first == self.version else "no-cache"]
        resp.set_header("etag", file.etag)
        resp.set_header("vary", "accept-encoding")
        resp.content_type = file.media_type
        if file.etag in req.get_header("if-none-match", default=""):
            resp.status = falcon.HTTP_304
        elif file.compressed is not None and "gzip" in req.get_header("accept-encoding", default=""):
            resp.set_header("content-encoding", "gzip")
            resp.data = file.compressed
        else:
            resp.data = file.body


def _found(directory: Traversable, above: str) -> Iterator[tuple[str, Traversable]]:
    for entry in directory.iterdir():
        path = f"{above}{entry.name}"
        if entry.is_dir():
            yield from _found(entry, f"{path}/")
        elif entry.name.rpartition(".")[2] in TYPES:
            yield path, entry


def _read(path: str, body: bytes) -> File:
    # Without a time, all workers send the same bytes under one ETag.
    compressed = gzip.compress(body, 9, mtime=0) if len(body) >= _SMALLEST_COMPRESSED else None
    if compressed is not None and len(compressed) >= len(body):
        compressed = None
    return File(body, compressed, TYPES[path.rpartition(".")[2]], f'"{hashlib.sha256(body).hexdigest()[:24]}"')
