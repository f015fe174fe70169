"""How a write and a read happen: transactions that tick a clock, and what becomes of a commit."""
