"""Pruning: the choice of weights that become zero."""
