"""The server of a command: which one it is, where it listens, and how the command connects to it."""
