"""One optimization from a lifted model to a written one: prepare, search, check, judge, write, report."""
