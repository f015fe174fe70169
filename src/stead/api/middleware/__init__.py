"""WSGI layers around the API and its authentication, outermost first: drain, slices, prefix, proxy headers, health,
request log, header sizes, compression, CORS, concurrency.
"""

from stead.api.middleware.compression import Compression
from stead.api.middleware.concurrency import Concurrency
from stead.api.middleware.cors import Cors
from stead.api.middleware.drain import Drain
from stead.api.middleware.header_sizes import HeaderSizes
from stead.api.middleware.health import Health
from stead.api.middleware.prefix import Prefix
from stead.api.middleware.proxy import ProxyHeaders
from stead.api.middleware.request_log import RequestLog
from stead.api.middleware.slices import Slices

__all__ = [
    "Compression",
    "Concurrency",
    "Cors",
    "Drain",
    "HeaderSizes",
    "Health",
    "Prefix",
    "ProxyHeaders",
    "RequestLog",
    "Slices",
]
