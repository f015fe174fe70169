"""WSGI layers around the API and its authentication, outermost first: proxy headers, request log, CORS."""

from stead.api.middleware.cors import Cors
from stead.api.middleware.proxy import ProxyHeaders
from stead.api.middleware.request_log import RequestLog

__all__ = ["Cors", "ProxyHeaders", "RequestLog"]
