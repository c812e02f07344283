"""The bodies of If, Loop and Scan: described, optimised, replayed."""
