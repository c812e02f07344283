"""Processes of the service: starting, supervising, logs, metrics, traces."""
