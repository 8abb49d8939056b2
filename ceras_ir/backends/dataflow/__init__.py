"""Target dataflow generates a circuit with a block for each layer. All blocks work in parallel."""
