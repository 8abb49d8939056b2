"""Target onnx exports the graph as an ONNX model with Q/DQ pairs around quantized values."""
