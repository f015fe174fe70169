"""The error of an invalid configuration."""


class ConfigError(Exception):
    """The configuration cannot be used. ``str(error)`` is one line for the operator; it never holds a secret."""
