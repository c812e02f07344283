"""Types and symbolic sizes of all tensors of a model."""
