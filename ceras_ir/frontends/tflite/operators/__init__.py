"""Importers of TensorFlow Lite operators, a module for each family."""
