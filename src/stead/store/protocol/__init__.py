"""Writes and reads: transactions that tick a clock, and the outcome of commits."""
