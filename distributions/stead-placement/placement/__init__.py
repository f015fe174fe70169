"""The package that deployment tools load from a Placement service. Only :mod:`placement.wsgi.api` is in it."""

from placement.sole_provider import require_sole_provider

require_sole_provider()
