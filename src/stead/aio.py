"""The asynchronous versions of ``stead.connect``, ``stead.open``, ``stead.Site`` and ``stead.Claim``.

Requests, answers and errors are those of ``stead``.
"""

from stead.client.aio.connecting import connect, open  # noqa: A004  # it is called stead.aio.open
from stead.client.aio.site import Claim, Site

__all__ = ["Claim", "Site", "connect", "open"]
