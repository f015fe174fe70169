"""The tables a database has, the revisions that bring them about, and what an upgrade would meet."""
