"""The page at ``/``: ``routes`` gives its files, ``answers`` what only the page asks for.

``work`` is what a child process does for it. The files are plain ES modules and CSS: what is written here is
what browsers load.
"""
