"""The page about the shipped library: counts, and the rules that gain most, drawn."""

from superopt.journeys.library.gallery.page import Page, library_page, write_page

__all__ = ["Page", "library_page", "write_page"]
