"""Queries on a snapshot: where requests fit, why or why not, how often, and what would make room."""
