"""Read TensorFlow Lite files: the flatbuffer, and the schema of a model."""
