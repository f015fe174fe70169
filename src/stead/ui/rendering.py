"""Templates, static files, and how values look in text. Everything that a template prints is escaped."""

from __future__ import annotations

import gzip
import hashlib
import re
import time
from dataclasses import dataclass
from functools import cached_property
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qsl, urlencode

import falcon
import jinja2
from markupsafe import Markup

from stead.aliases import NoAliases
from stead.aliases import read as read_aliases
from stead.auth.authentication import Credentials
from stead.client.errors import plain
from stead.domain.moments import in_utc
from stead.printing import class_words, in_class_order, short_amount, unit_of
from stead.ui.sessions import SESSION_KEY, csrf_token

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from importlib.resources.abc import Traversable
    from pathlib import Path
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from stead.api.request import Request, Response
    from stead.domain.claim import HeldLease


class Rendering:
    """The templates of the package, with what every page shows."""

    def __init__(
        self, static: StaticFiles, *, writes: bool, signs_in: bool = True, aliases: Path | None = None
    ) -> None:
        """*writes*: the pages offer claims and releases. *aliases*: a file of names for UUIDs."""
        self._aliases = aliases
        self._static = static
        self.writes = writes
        self._signs_in = signs_in

    @cached_property
    def _templates(self) -> jinja2.Environment:
        templates = jinja2.Environment(
            loader=jinja2.PackageLoader("stead.ui"),
            autoescape=True,
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            auto_reload=False,
        )
        templates.filters.update(FILTERS)
        templates.filters["named"] = self._named
        templates.filters["name_of"] = self._name_of
        return templates

    def _named(self, uuid: str) -> _Name | str:
        """The name that an operator gave to a UUID, to be shown after it; empty if there is none."""
        if self._aliases is None:
            return ""
        try:
            name = read_aliases(self._aliases).get(uuid)
        except NoAliases:
            return ""  # `stead alias list` says what is wrong with the file
        return "" if name is None else _Name(name)

    def _name_of(self, uuid: str) -> str:
        """The name that an operator gave to a UUID, or the UUID."""
        name = self._named(uuid)
        return name.text if isinstance(name, _Name) else uuid

    def named_like(self, text: str) -> dict[str, str]:
        """The UUIDs to which the operator gave names that have *text*, with these names."""
        try:
            names = read_aliases(self._aliases)
        except NoAliases:
            return {}
        return {uuid: name for uuid, name in names.items() if text.casefold() in name.casefold()}

    def show(self, req: Request, resp: Response, template: str, **values: Any) -> None:
        """Answer with *template*. Pages are never cached: they show what one user may see at one moment."""
        resp.text = self.text(req, template, **values)
        describe(resp)

    def text(self, req: Request, template: str, **values: Any) -> str:
        """The HTML of *template* for the user of a request."""
        session = req.env.get(SESSION_KEY)
        credentials = Credentials.of(req.env)
        page = self._templates.get_template(f"{template}.html")
        return page.render(
            root=req.root_path,
            static=f"{req.root_path}/ui/static/{self._static.version}",
            page=template,
            user=credentials.user_id if session else None,
            csrf=csrf_token(session) if session else "",
            writes=self.writes,
            **values,
        )


@dataclass(frozen=True, slots=True)
class _Name:
    """A name after its UUID; templates call ``__html__``."""

    text: str

    def __html__(self) -> str:
        return f' <bdi class="quiet">{escape(self.text)}</bdi>'


def describe(resp: Response) -> None:
    """Set the headers of a page."""
    resp.content_type = "text/html; charset=utf-8"
    resp.cache_control = ["no-store"]


# How values look in text: numbers, amounts of units, moments.


THIN_SPACE = "\u202f"
"""Narrow, and no line ends at it."""

_LEVELS = 10
"""Steps of the scale of colours."""


def number(value: float) -> str:
    """A number with thin spaces between thousands, which no locale reads as a decimal mark; integers without a
    fraction.
    """
    return (f"{value:,.0f}" if float(value).is_integer() else f"{value:,.2f}").replace(",", THIN_SPACE)


def spaced(text: str) -> str:
    """*text* with thin spaces in place of commas between thousands."""
    return re.sub(r"(?<=\d),(?=\d{3}\b)", THIN_SPACE, text)


def amount(value: float, resource_class: str) -> str:
    """An amount of a resource class: of memory and disk in about three digits with their unit, others in full."""
    shown, unit = unit_of(resource_class, value)
    return f"{short_amount(shown).replace(',', THIN_SPACE)}{THIN_SPACE}{unit}" if unit else number(value)


def percent(part: float, whole: float) -> str:
    """*part* of *whole* in percent, without a fraction; a dash if there is nothing."""
    return f"{100 * part / whole:.0f}\u202f%" if whole > 0 else "–"


def fill(part: float, whole: float) -> float:
    """*part* of *whole* in percent, between 0 and 100, for the width of a bar."""
    return round(min(100.0, max(0.0, 100 * part / whole)), 2) if whole > 0 else 0.0


def level(part: float, whole: float) -> int:
    """The step of the scale of colours for *part* of *whole*: 0 is empty, 10 is full."""
    return round(fill(part, whole) * _LEVELS / 100)


def moment(seconds: float) -> str:
    """Seconds since 1970 as a time in UTC."""
    return in_utc(int(seconds))


_UNITS_OF_TIME = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))
_OLD = 60 * 86_400
"""Seconds after which a date says more than a number of days."""


def relative(seconds: float, now: float) -> str:
    """*seconds* since 1970 as seen from *now*: ``3 min ago``, ``in 2 h``, or a date if that is far away."""
    distance = abs(now - seconds)
    if distance > _OLD:
        return moment(seconds)[:10]
    length, unit = next((pair for pair in _UNITS_OF_TIME if distance >= pair[0]), (1, "s"))
    words = f"{int(distance / length)}{THIN_SPACE}{unit}"
    return f"in {words}" if seconds > now else f"{words} ago"


def ago(seconds: float) -> Markup:
    """A moment in words, with the exact one on hover. Scripts keep the words current."""
    exact = moment(seconds)
    return Markup('<time datetime="{0}" title="{0}">{1}</time>').format(exact, relative(seconds, time.time()))


def ending(lease: HeldLease) -> Markup:
    """When a lease ends, or since when its consumer is overdue."""
    look, words = ("disabled", "overdue, ended") if lease.is_overdue else ("quiet", "ends")
    return Markup('<span class="{}">{} {}</span>').format(look, words, ago(lease.expires_at))


def duration(seconds: float) -> str:
    """A time without a fraction, in its largest unit: ``10 s``, ``5 min``."""
    length, unit = next(pair for pair in _UNITS_OF_TIME if seconds >= pair[0] or pair[0] == 1)
    return f"{seconds / length:.0f}{THIN_SPACE}{unit}"


READABLE = ":,!/()"
"""Characters that the pages show as they are in the query of a request; all are allowed in a query."""


def spelled(query: str) -> str:
    """A query as people write it."""
    return urlencode(parse_qsl(query, keep_blank_values=True), safe=READABLE)


_IDENTIFIER = re.compile(r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}")


def short(identifier: str) -> Markup:
    """The beginning of a UUID, with all of it on hover and a button that copies it; other names in full."""
    if not _IDENTIFIER.fullmatch(identifier):
        return Markup("<bdi>{}</bdi>").format(identifier)
    return Markup('<code class="id" title="{}">{}</code>').format(identifier, identifier[:8])


def copy(identifier: str) -> Markup:
    """A button that copies a UUID; CSS shows it where scripts run. Empty for other names, which are there in full."""
    if not _IDENTIFIER.fullmatch(identifier):
        return Markup("")
    button = (
        '<button type="button" class="copy" data-copy="{0}" title="Copy {0}" aria-label="Copy {0}">'
        '<svg class="icon" viewBox="0 0 16 16" aria-hidden="true"><path d="M6 5h7v8H6zM3 11V3h7"/></svg></button>'
    )
    return Markup(button).format(identifier)


def listed(parts: Iterable[Markup]) -> Markup:
    """Parts of a sentence: ``a``, ``a and b``, ``a, b and c``."""
    every = list(parts)
    return Markup(" and ").join(part for part in (Markup(", ").join(every[:-1]), Markup(", ").join(every[-1:])) if part)


def sentence_amounts(given: Mapping[str, int]) -> Markup:
    """Amounts by class as people say them: ``8 vCPUs and 16 GiB of memory``."""
    return listed(_said(name, value) for name, value in in_class_order(given).items())


def _said(resource_class: str, value: int) -> Markup:
    words = class_words(resource_class)
    shown = amount(value, resource_class)
    if unit_of(resource_class, value)[1]:
        said = f"{shown} of {words.lower() if words != resource_class else words}"
    else:
        said = f"{shown} {words[:-1] if value == 1 and words != resource_class and words.endswith('s') else words}"
    return Markup('<span title="{}">{}</span>').format(resource_class, said)


_SPANS = ((365 * 86_400, "year"), (30 * 86_400, "month"), (86_400, "day"), (3600, "hour"), (60, "minute"))


def span(seconds: float) -> str:
    """A time in its largest unit: ``9 days``."""
    for length, unit in _SPANS:
        if seconds >= length:
            return f"{int(seconds // length):,} {unit}{'s' if seconds >= 2 * length else ''}"
    return "less than a minute"


def past(seconds: float) -> str:
    """The time until now: ``the last 9 days``, ``the last hour``."""
    return f"the last {span(seconds).removeprefix('1 ')}"


_REASONS = {
    "capacity_exceeded": "Not enough free",
    "units_violated": "Amount does not fit the units of the inventory",
    "no_such_inventory": "The provider has no inventory of the class",
    "provider_disabled": "The provider is disabled",
    "nothing_fits": "No allocation candidates",
    "nothing_found": "No allocation candidates found within the limit of the search",
    "generation_conflict": "The provider changed first (generation)",
    "consumer_conflict": "The consumer changed first (generation)",
    "concurrent_update": "Other clients changed it first, until the time limit",
    "unavailable": "The database did not answer",
    "no_candidates": "A query without candidates",
    "allocations_not_found": "The consumer has no allocations",
    "provider_in_use": "The provider has allocations",
    "inventory_in_use": "The inventory has allocations",
}


def reason_words(name: str) -> str:
    """The label of a metric in words; the label itself if it has none."""
    return _REASONS.get(name, name)


def reason(name: str) -> str:
    """The label of a metric, in words where a name is not enough; the label follows, since alerts have it."""
    return f"{_REASONS[name]}: {name}" if name in _REASONS else name


FILTERS: Mapping[str, Callable[..., object]] = {
    "amount": amount,
    "in_class_order": in_class_order,
    "number": number,
    "percent": percent,
    "plain": plain,
    "fill": fill,
    "level": level,
    "ago": ago,
    "copy": copy,
    "duration": duration,
    "ending": ending,
    "moment": moment,
    "reason_words": reason_words,
    "said": sentence_amounts,
    "short": short,
    "spaced": spaced,
    "spelled": spelled,
    "reason": reason,
    "past": past,
    "span": span,
    "words": class_words,
}


# ``/ui/static/``: the files of the package, with their types and their caching.
#
# A path with the version of the files may be cached forever. The same file without version has an ETag.


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


# HEAD of pages: the headers of GET, without a body.


IS_HEAD_KEY = "stead.ui.is_head"
"""The environ key that marks a HEAD, which must not use up a one-time code."""


class HeadAsGet:
    """Answers HEAD as *pages* answer GET."""

    def __init__(self, pages: WSGIApplication) -> None:
        self._pages = pages

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        if environ["REQUEST_METHOD"] != "HEAD":
            return self._pages(environ, start_response)
        parts = self._pages({**environ, "REQUEST_METHOD": "GET", IS_HEAD_KEY: True}, start_response)
        getattr(parts, "close", lambda: None)()
        return []
