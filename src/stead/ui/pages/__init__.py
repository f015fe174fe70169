"""One module per page of the web interface: its input, what it shows as values, and its output."""
