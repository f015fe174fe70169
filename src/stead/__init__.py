"""Stead: a Placement service that knows what every provider can still give, and claims it."""

__version__ = "0.1.0"
