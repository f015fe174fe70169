"""One module per family of paths: the shapes of its bodies, its checks, and its handlers."""
