"""Schema revisions, one module each; never changed once released."""
