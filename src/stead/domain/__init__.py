"""Values and rules, without input and output: inventories, claims, requests, names and errors."""
