"""Reads data from the server: small functions that return plain values and draw nothing.

Commands pass the values to the modules that draw. So only these functions depend on the client of the API.
"""
