"""Setting weights to zero: which, and how many of each layer."""
