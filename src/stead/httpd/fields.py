"""Header fields as WSGI names them: ``X-Auth-Token`` → ``HTTP_X_AUTH_TOKEN``. Source: PEP 3333; RFC 9110, section 5."""

from __future__ import annotations

MOST_CACHED = 1024
"""Names whose keys are cached. Clients may send any name; a few dozen matter."""

_keys: dict[bytes, str] = {}


def add(fields: dict[str, str], name: bytes, value: bytes) -> None:
    """Add a field; one that comes again is joined with a comma, as it may be (RFC 9110, section 5.3)."""
    key = _keys.get(name)
    if key is None:
        key = _learned(name)
    if key:
        text = value.decode("latin-1").strip(" \t")
        fields[key] = f"{fields[key]},{text}" if key in fields else text


def _learned(name: bytes) -> str:
    key = key_of(name)
    if len(_keys) < MOST_CACHED:
        _keys[name] = key
    return key


def key_of(name: bytes) -> str:
    """The key of a field in the environ; empty for a field that the server omits.

    The server omits names with an underscore: WSGI would not distinguish them from the names with hyphens, which a
    proxy in front may set and guard.
    """
    if b"_" in name:
        return ""
    key = name.decode("latin-1").upper().replace("-", "_")
    return key if key in ("CONTENT_TYPE", "CONTENT_LENGTH") else f"HTTP_{key}"
