"""Gradients of graphs: adjoint statements instantiated in reverse order, simplified while they are built."""
