"""A second opinion on equations: operators written anew in plain numpy, a search over all small shapes."""

from tests.verifier.brute.search import SIZES, WIDER, Found, Search, search

__all__ = ["SIZES", "WIDER", "Found", "Search", "search"]
