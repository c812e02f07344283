"""Small learned models: graph networks as ONNX models, trained by superopt's own steps in ONNX Runtime."""
