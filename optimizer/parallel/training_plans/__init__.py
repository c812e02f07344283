"""Plans of training steps: how samples, layers and states are divided."""
