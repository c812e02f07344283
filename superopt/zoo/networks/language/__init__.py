"""Networks of text and other sequences."""
