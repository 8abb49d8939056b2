"""Rewrite patterns that operations give to `canonicalize`."""
