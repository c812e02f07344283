"""End-to-end tasks as functions, called by the command line and the service."""
