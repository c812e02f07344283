"""What is measured against ONNX Runtime's own full optimisation: ``python -m benchmarks --help``."""
