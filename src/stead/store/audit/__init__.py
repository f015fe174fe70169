"""The audit: checks the allocations and inventories of a database, Stead's own or another Placement service's.

`findings` describes the faults, `checks` and `trees` find them in one snapshot, and `repairs` repairs those that can be
repaired safely.
"""
