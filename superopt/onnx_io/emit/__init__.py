"""From operators of the algebra to ONNX nodes."""
