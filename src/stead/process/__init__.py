"""Housekeeping of a process: threads, memory, time slices."""
