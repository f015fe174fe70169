"""Changes: for the catalogs of all processes, and for clients that watch."""
