"""Text on a terminal: its width, columns, lists and bars, the output itself, and single keys."""
