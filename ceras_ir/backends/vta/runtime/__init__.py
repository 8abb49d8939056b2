"""What is copied into the folder `driver` of a compiled network, to run it on a board."""
