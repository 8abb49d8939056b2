"""The model as it is written: files, nodes, functions and the interface, without IR."""
