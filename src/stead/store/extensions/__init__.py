"""Objects of Stead's own features, each in a table of its own: disabled providers and flavors."""
