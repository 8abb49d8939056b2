"""A multi-level compiler from ONNX to edge machines, on xDSL. Imports nothing: start-up time is a feature."""
