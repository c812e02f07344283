"""Every well-typed case of an equation up to a bound, each decided by polynomial identity testing."""
