"""Parses query strings, by microversion, into domain requests."""
