"""The client of the API for programs. It imports no server package."""

BY_NAME = "name:"
"""Before the name of a provider, where the API takes a UUID or a name."""
