"""The audit: whether the books of a database are right, Stead's own or those of another Placement service.

`findings` has the words for what is wrong, `checks` and `trees` find it in one snapshot, `repairs` mends what can be
mended safely.
"""
