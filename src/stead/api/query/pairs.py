"""The pairs of a query string, in order, and the schemas of keys and plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from stead.domain.errors import InvalidQuery

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from stead.api.bodies import Validator
    from stead.api.request import Request

INVALID = "Invalid query string parameters:"
DUPLICATE_KEY = "placement.query.duplicate_key"


class Pairs:
    """Keys and values as the client wrote them, decoded; a key may be repeated."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._values: dict[str, list[str]] = {}
        for key, value in pairs:
            self._values.setdefault(key, []).append(value)

    @classmethod
    def of(cls, req: Request) -> Pairs:
        """The pairs of the request's query string.

        Raises:
            InvalidQuery: part of the string is not UTF-8.
        """
        return cls.read(req.query_string)

    @classmethod
    def read(cls, query: str) -> Pairs:
        """The pairs of a query string.

        Raises:
            InvalidQuery: part of the string is not UTF-8.
        """
        parts = [part.partition("=") for part in query.split("&") if part]
        if _is_plain(query):
            return cls([(key, value) for key, _, value in parts])
        try:
            return cls([(_text(key), _text(value)) for key, _, value in parts])
        except UnicodeError as error:
            raise InvalidQuery(f"{INVALID} {error}") from None

    def __iter__(self) -> Iterator[tuple[str, str]]:
        return iter(self._pairs)

    def all(self, key: str) -> list[str]:
        """Every value of *key*."""
        return self._values.get(key, [])

    def first(self, key: str) -> str | None:
        """The first value of *key*."""
        return self._values[key][0] if key in self._values else None

    def last(self, key: str) -> str | None:
        """The last value of *key*."""
        return self._values[key][-1] if key in self._values else None

    def require_single(self, keys: Iterable[str]) -> None:
        """Refuse repetition of any of *keys*.

        Raises:
            InvalidQuery: names the first key that is repeated.
        """
        for key in keys:
            if len(self.all(key)) > 1:
                raise InvalidQuery(f"Query parameter '{key}' may be specified only once.", DUPLICATE_KEY)

    def require(self, validator: Validator) -> None:
        """Refuse keys and values that *validator* rejects. Of a repeated key it checks the last value.

        Raises:
            InvalidQuery: with the message of the first fault.
        """
        fault = validator.first_fault({key: values[-1] for key, values in self._values.items()})
        if fault is not None:
            raise InvalidQuery(f"{INVALID} {fault}")


def _is_plain(encoded: str) -> bool:
    """Whether it needs no decoding."""
    return encoded.isascii() and "%" not in encoded and "+" not in encoded


def _text(encoded: str) -> str:
    if _is_plain(encoded):
        return encoded
    # WSGI passes bytes decoded as Latin-1.
    return unquote_to_bytes(encoded.replace("+", " ").encode("latin-1")).decode("utf-8")
