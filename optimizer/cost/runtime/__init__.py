"""The optimizer's only interface to ONNX Runtime: sessions, devices, memory, the kernels that it executes."""
