"""Child processes: starting, limits, monitoring, ending."""
