"""Training steps: gradients, losses, parameter updates, their description, and running them."""
