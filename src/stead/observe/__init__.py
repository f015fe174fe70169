"""Metrics, log, traces and health of a running service. This package does not import the packages that it observes."""
