"""Memory of a graph on one device: liveness, order, recomputation, tensors cached from host memory."""
