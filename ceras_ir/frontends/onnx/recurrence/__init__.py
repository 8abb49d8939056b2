"""Loops whose body is the cell of a recurrent layer."""
