"""The HTTP server of ``stead serve``: one event loop owns connections, a bounded pool of threads runs the application.

Stead's rooms are unknown here. `stead.serve` starts this server in each worker and tells it which requests are which.
Decision: docs/decisions/ "The HTTP server".
"""
