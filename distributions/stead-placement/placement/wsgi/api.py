"""The WSGI application under the name that deployment tools load: ``placement.wsgi.api:application``.

Some tools copy this file to another place and load it from there, so it imports by absolute names only.
"""

from placement.sole_provider import require_sole_provider

require_sole_provider()

from stead.wsgi import application  # noqa: E402  only after the check: this import opens the database

__all__ = ["application"]
