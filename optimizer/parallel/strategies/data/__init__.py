"""The ranking that ships."""
