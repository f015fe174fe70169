"""``stead-bench``: creates sites, loads them into servers, sends requests, and reports the cost."""
