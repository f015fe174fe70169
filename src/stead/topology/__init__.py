"""Site files: describe what machines provide, and plan the changes that make a server match them."""
