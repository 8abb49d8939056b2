"""What a user may choose about the generated C."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class COptions:
    """Options of `emit`."""

    title: str = "model"
    """Name of the network, for comments."""
    weights: Literal["source", "file"] = "source"
    """Constants as string literals in `model_weights.c`, or apart in `model.weights`."""
    workspace: int = 128 * 1024
    """
    Bytes of scratch memory that one layer may take for rows of windows. Fewer bytes mean fewer
    rows at a time and so more passes over the weights; at least one row is always taken.
    """

    MAX_ROWS = 8
    """Rows of windows at a time: each pass over the weights serves so many outputs."""
