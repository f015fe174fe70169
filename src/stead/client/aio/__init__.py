"""The asynchronous client. ``stead.client.blocking`` is generated from it."""
