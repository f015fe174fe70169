"""The truth, in SQL: one module per noun."""
