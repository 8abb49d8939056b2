"""Target dataflow: a circuit with one block for every layer, all of them working at once."""
