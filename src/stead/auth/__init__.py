"""Authentication and policy."""
