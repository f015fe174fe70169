"""The web interface: pages for people, rendered by the server from the same service as the API."""
