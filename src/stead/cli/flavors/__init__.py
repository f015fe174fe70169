"""Flavors of other services as flavors of Stead."""
