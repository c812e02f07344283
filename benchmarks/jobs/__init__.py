"""Whole jobs: budgets, memory, many clients, wrong accepts."""
