"""From ONNX nodes to operators of the algebra."""
