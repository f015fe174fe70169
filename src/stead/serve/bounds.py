"""The limits of the HTTP server, from the options of ``[stead]``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stead.httpd.bounds import Bounds

if TYPE_CHECKING:
    from stead.config import Settings


def bounds_of(settings: Settings) -> Bounds:
    """The limits of one worker."""
    http = settings.http
    return Bounds(
        connections=http.connections,
        head=http.head_size,
        head_timeout=http.head_timeout,
        idle_timeout=http.idle_timeout,
        body_idle_timeout=http.body_timeout,
        bodies=http.bodies_size,
        send_idle_timeout=http.send_timeout,
        unsent=http.unsent_size,
        queue=http.queue,
        queue_per_client=http.queue_per_client,
        queue_timeout=http.queue_timeout,
        proxies=http.proxies,
    )
