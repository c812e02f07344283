"""Journeys as functions: what joins rules, searches and the database; commands call them."""
