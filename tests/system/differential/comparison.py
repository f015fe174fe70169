"""What a client can tell of an answer, and in what two answers differ."""

import html
import json
import re
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from tests.system.api.client import Answer
from tests.system.differential.asking import Request

SAME_TIME = timedelta(seconds=20)


@dataclass(frozen=True)
class Exchange:
    """One request, what both answered, and in what the answers differ: names of facets."""

    request: Request
    stead: Answer
    released: Answer
    facets: frozenset[str]

    def __str__(self) -> str:
        lines = [f"differ in {', '.join(sorted(self.facets))}", f"asked    {self.request.method} {self.request.target}"]
        lines += [f"         at 1.{self.request.version}, {json.dumps(self.request.body)} {dict(self.request.headers)}"]
        for name, answer in (("stead", self.stead), ("released", self.released)):
            lines += [f"{name:8} {answer.status} {answer.body.decode(errors='replace')[:3000]}"]
            lines += [f"         {sorted((key.lower(), value) for key, value in answer.headers)}"]
        return "\n".join(lines)


def compare(request: Request, stead: Answer, released: Answer, apart: timedelta = timedelta()) -> Exchange:
    """Compare two answers, the second of which was given so long after the first."""
    ours, theirs = facets(request, stead), facets(request, released)
    differing = {name for name in ours if ours[name] != theirs[name]}
    if not at_one_time(stead.header("last-modified"), released.header("last-modified"), apart):
        differing.add("last-modified")
    return Exchange(request, stead, released, frozenset(differing))


def at_one_time(one: str | None, other: str | None, apart: timedelta) -> bool:
    """Are two dates so near that they may mean the same? The two services started one after the other."""
    if one is None or other is None:
        return one is other
    return abs(parsedate_to_datetime(one) - parsedate_to_datetime(other)) < SAME_TIME + apart


def facets(request: Request, answer: Answer) -> dict[str, Any]:
    """All that is compared, by name."""
    found: dict[str, Any] = {
        "status": answer.status,
        "content-type": answer.header("content-type"),
        "location": answer.header("location"),
        "allow": sorted((answer.header("allow") or "").split(", ")),
        "cache-control": answer.header("cache-control"),
        "version": answer.header("openstack-api-version"),
        "vary": sorted((answer.header("vary") or "").lower().split(", ")),
        "request id": answer.header("x-openstack-request-id") is not None,
        "body": None,
        "error": None,
        "code": None,
        "detail": None,
    }
    if answer.status < 400:
        found["body"] = readable(request, answer) if answer.body else ""
        return found
    found["detail"] = detail(request, answer)
    if is_json_error(answer):
        (error,) = answer.json["errors"]
        found["code"] = error.pop("code", None)
        found["error"] = sorted((name, value) for name, value in error.items() if name not in ("request_id", "detail"))
    return found


def is_json_error(answer: Answer) -> bool:
    return answer.status != 401 and bool(answer.body) and answer.header("content-type") == "application/json"


FORMS = (
    re.compile(r"<html>\s*<head>\s*<title>(?P<title>.*)</title>\s*</head>\s*<body>\s*<h1>(?P=title)</h1>\s*"
               r"(?P<sentence>.*)<br /><br />\s*(?P<message>.*?)\s*</body>\s*</html>\s*", re.DOTALL),
    re.compile(r"(?P<title>[^\n]*)\n\n(?P<sentence>[^\n]*)\n\n(?P<message>.*)", re.DOTALL),
)  # fmt: skip
"""How a page and a plain text have the parts that the detail of a JSON error has."""


CHOSEN = re.compile('(?<=^Unable to create resource provider ")(.*", )[0-9a-f-]{36}(?=: )')
"""A uuid that the service chose for a provider that it then did not make."""


def detail(request: Request, answer: Answer) -> str:
    """All that a refusal says, in whichever form: a sentence, an empty line, the message. Spaces in a row are one.

    The released service shows a schema over several lines, of which it then makes one.
    """
    text = answer.json["errors"][0]["detail"] if is_json_error(answer) else _detail_of_page(answer.body.decode())
    sentence, _, message = text.partition("\n\n")
    message = _plain(message)
    if request.route == "POST /resource_providers" and isinstance(request.body, dict) and "uuid" not in request.body:
        message = CHOSEN.sub(r"\1(its uuid)", message)
    return f"{_plain(sentence)}\n\n{message}"


def _detail_of_page(body: str) -> str:
    match = next(filter(None, (form.fullmatch(body) for form in FORMS)), None)
    if match is None:
        return body
    sentence, message = match["sentence"], match["message"]
    if body.startswith("<html>"):
        sentence, message = (" ".join(html.unescape(text).split()) for text in (sentence, message))
    return f"{sentence}\n\n{message}"


def _plain(text: str) -> str:
    return re.sub(" +", " ", text).strip(" ")


def readable(request: Request, answer: Answer) -> Any:
    """The body of a success, without the order of lists where no order is promised."""
    if answer.header("content-type") != "application/json":
        return answer.body
    ordered = ("links",) if request.method == "GET" else ("links", "aggregates")
    return canonical(answer.json, ordered)


def canonical(value: Any, ordered: tuple[str, ...] = (), name: str = "") -> Any:
    """*value* with objects as sorted pairs, and with lists sorted unless they are called as *ordered* says."""
    if isinstance(value, dict):
        return tuple((key, canonical(value[key], ordered, key)) for key in sorted(value))
    if isinstance(value, list):
        inner = [canonical(element, ordered) for element in value]
        return tuple(inner if name in ordered else sorted(inner, key=repr))
    return repr(value) if isinstance(value, float | bool) else value  # 1, 1.0 and true are not the same on the wire
