"""A multi-level compiler from ONNX to edge machines, on xDSL; this module imports nothing."""
