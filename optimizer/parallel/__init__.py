"""Parallel plans: clusters, placements, communication, simulation, and the search for machine mappings."""
