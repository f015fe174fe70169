"""Writes whole provider trees from a document: locks and reads them, and writes the changes."""
