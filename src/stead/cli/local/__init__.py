"""Commands that work on this machine without the API: they start the server, or read its configuration and database."""
