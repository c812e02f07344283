"""Parallel plans: clusters, placements, their communication, simulation, the search for machine mappings."""
