"""One module per command of ``stead``: it parses the arguments, calls the server, and prints."""
