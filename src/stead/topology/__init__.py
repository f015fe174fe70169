"""Site files: what machines provide, described; and what must change for a server to say the same."""
