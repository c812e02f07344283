"""Whole tasks as functions, joining rules, searches and the database: commands and the service call them."""
