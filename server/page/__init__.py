"""The web page at ``/``: ``routes`` serves its files, ``answers`` its own endpoints.

``work`` runs in child processes. The files are plain ES modules and CSS, served without a build step.
"""
