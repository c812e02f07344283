"""More general forms of an equation, and the conditions under which one holds."""
