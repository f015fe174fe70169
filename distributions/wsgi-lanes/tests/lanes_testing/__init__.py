"""What tests of an HTTP server need: ambiguous messages, other readers of them, costly requests, and cut segments.

The tests of Stead use these modules, too. They need nothing of Stead.
"""
