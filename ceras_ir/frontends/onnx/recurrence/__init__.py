"""Loops with the cell of a recurrent layer as their body."""
