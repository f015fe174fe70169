"""Measuring: ``stead-bench`` makes sites, loads them, asks for them, and says what it cost. A client of the API."""
