"""The page at ``/``: ``routes`` gives its files, ``answers`` what only the page asks for, ``work`` what is done
for it in a child process. The files are plain ES modules and CSS: what is written here is what browsers load.
"""
