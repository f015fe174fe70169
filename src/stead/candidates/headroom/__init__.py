"""How many times a request can be claimed until nothing fits, where, and what runs out first."""
