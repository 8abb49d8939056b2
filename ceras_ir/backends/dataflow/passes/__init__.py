"""Passes of target dataflow."""
