"""Workers: jobs taken from the database, and what runs in their child processes."""
