"""The edge: HTTP in and out. Knows microversions, headers and JSON, so that nobody below has to."""
