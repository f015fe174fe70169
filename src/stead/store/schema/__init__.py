"""The tables of a database, the revisions that create them, and the effects of an upgrade."""
