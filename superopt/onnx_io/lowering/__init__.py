"""From graphs to ONNX models."""
