"""Changes of a model that is still ONNX: specialising, cutting, converting, simplifying."""
