"""Statements, and all that differs between databases."""
