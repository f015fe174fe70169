"""Statements, and all differences between databases."""
