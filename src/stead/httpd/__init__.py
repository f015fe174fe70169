"""The HTTP server of ``stead serve``: one event loop owns connections, a bounded pool of threads runs the application.

This package knows nothing of Stead. `stead.serve` starts this server in each worker and classifies its requests.
Decision: docs/decisions/ "The HTTP server".
"""
