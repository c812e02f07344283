"""Clusters and plans as YAML and JSON, read and written."""
