"""Jobs of the service: submission, queue, leases, events."""
