"""Files that are copied into the folder `driver` of a compiled network."""
