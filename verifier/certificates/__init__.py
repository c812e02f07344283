"""Certificates and their checker: the code that a proof asks to be trusted."""
