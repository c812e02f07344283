"""Plans for clusters: what they are made of, for and from."""
