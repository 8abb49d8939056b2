"""Parse TOSA text of upstream MLIR."""
