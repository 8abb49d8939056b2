"""Target onnx: the graph as an ONNX model, its quantized values between Q and DQ."""
