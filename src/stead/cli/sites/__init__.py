"""A site on a server, for ``stead topology``: reads it, and changes it to match a file."""
