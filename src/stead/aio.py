"""The asynchronous versions of ``stead.connect``, ``stead.open``, ``stead.Site``, ``stead.Claim`` and ``stead.Held``.

Requests, answers and errors are those of ``stead``.
"""

from stead.client.aio.connecting import connect, open  # noqa: A004  # it is called stead.aio.open
from stead.client.aio.site import Claim, Held, Site

__all__ = ["Claim", "Held", "Site", "connect", "open"]
