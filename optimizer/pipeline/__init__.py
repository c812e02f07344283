"""The optimization pipeline: prepare, search, check, judge, write, report."""
