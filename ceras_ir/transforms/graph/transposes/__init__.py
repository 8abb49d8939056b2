"""Patterns of `eliminate-transposes`: how a transpose moves below one kind of operation."""
