"""Mixed precision of training steps: predicted errors, choice under a budget, casts, loss scaling, checks."""
