"""The synchronous client, generated from ``stead.client.aio`` by ``python -m scripts.twins``; `running` is written."""
