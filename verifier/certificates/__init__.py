"""Certificates and their checker: the trusted code base of proofs."""
