"""Markdown page about the shipped library: counts, and drawings of the most profitable rules."""

from superopt.journeys.library.gallery.page import Page, library_page, write_page

__all__ = ["Page", "library_page", "write_page"]
