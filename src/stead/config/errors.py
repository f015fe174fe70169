"""What is wrong with a configuration."""


class ConfigError(Exception):
    """The configuration cannot be used. ``str(error)`` is one line for the operator; it never holds a secret."""
