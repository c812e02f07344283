"""Workers: they take jobs from the database and run them in child processes."""
