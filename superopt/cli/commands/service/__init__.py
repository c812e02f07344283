"""Commands of the service and its database: serve, worker, submit, keys, db."""
