"""What operators see of a running service: metrics, a log, traces, and whether it is well. Knows nobody who is seen."""
