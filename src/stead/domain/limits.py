"""Limits of one request, with their defaults: config/ reads them, api/ and ui/ apply them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """Maximum values for one request; ``body_size`` and ``query_length`` are in bytes."""

    body_size: int = 16 * 1024 * 1024
    query_length: int = 64_000
    groups: int = 3000
    suffix_length: int = 64
    """In characters, of the suffix of a request group."""
    allocations: int = 250_000
    claims: int = 1000
    tree_providers: int = 10_000
    """In one document of provider trees."""
    answer_size: int = 1 << 30
    """In bytes, of a list or of candidates: what a worker needs for one answer grows with the site."""
    lease: int = 0
    """In seconds from now to the end of a lease; 0: no maximum."""
