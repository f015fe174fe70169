"""The WSGI entry point: ``stead.wsgi:application``, for any WSGI server.

Importing this module reads the configuration, checks the database and loads it.
"""

from __future__ import annotations

from stead.application import build_application
from stead.config import load

application = build_application(load())
