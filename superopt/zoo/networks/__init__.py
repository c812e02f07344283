"""The networks of the papers, one family a module."""
