"""The commands ``placement-manage`` and ``placement-status``, for deployments that already use them."""
