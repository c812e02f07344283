"""Random valid models through the optimizer."""
