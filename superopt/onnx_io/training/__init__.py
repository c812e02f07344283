"""The forward pass of training: dropout, batch statistics, parameters."""
