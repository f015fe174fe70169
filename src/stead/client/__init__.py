"""The client of the API for programs. It imports no server package."""
