"""Target mlir exports the network in upstream dialects of MLIR."""
