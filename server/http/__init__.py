"""The HTTP application: requests, responses, limits, security."""
