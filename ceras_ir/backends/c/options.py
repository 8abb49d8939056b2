"""What a user may choose about the generated C."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Weights: TypeAlias = Literal["source", "file", "incbin"]


@dataclass(frozen=True)
class COptions:
    """Options of `emit`."""

    title: str = "model"
    """Name of the network, for comments."""
    weights: Weights = "source"
    """
    Constants as string literals in `model_weights.c`; or in `model.weights`, which the program
    loads (file) or which GNU compilers for ELF put into the program (incbin).
    """
    vectors: bool = True
    """
    Kernels in vectors beside the portable loops, for processors that have them. The constants of
    such layers are written in both orders; one is compiled.
    """
    dsp: bool = False
    """Kernels for cores that multiply pairs of 16-bit numbers, such as the Cortex-M4."""
    workspace: int = 256 * 1024
    """
    Bytes of scratch memory that one layer may take for rows of windows. Fewer bytes mean fewer
    rows at a time and so more passes over the weights; at least one row is always taken.
    """

    MAX_ROWS = 8
    """Rows of windows at a time: each pass over the weights serves so many outputs."""
