"""What a user may choose about the generated C."""

from dataclasses import dataclass, replace

from ceras_ir.backends.c.choices import Weights
from ceras_ir.backends.c.machine import NATIVE, Machine
from ceras_ir.backends.c.prefix import MODEL, Prefix


@dataclass(frozen=True)
class LayerChoice:
    """What tuning may choose for one layer; see `COptions`."""

    tile_rank: int
    workspace: int
    winograd: int


@dataclass(frozen=True)
class COptions:
    """Options of `emit`."""

    title: str = "model"
    """Name of the network, for comments."""
    prefix: Prefix = MODEL
    """What begins the names of functions, macros, constants and files."""
    weights: Weights = "source"
    """
    Constants as string literals in `model_weights.c`; or in `model.weights`, which the program
    loads (file) or which GNU compilers for ELF put into the program (incbin).
    """
    machine: Machine = NATIVE
    """What the build files compile for, unless they are told otherwise."""
    vectors: bool = True
    """Kernels in vectors beside the portable loops, for processors that have them."""
    dsp: bool = False
    """Kernels for cores that multiply pairs of 16-bit numbers, such as the Cortex-M4."""
    stored_filters: frozenset[int] = frozenset()
    """Layers whose filters may lie in constant memory as Winograd's transform makes them."""
    workspace: int = 256 * 1024
    """
    Bytes of scratch memory that one layer may take for rows of windows. Fewer bytes mean fewer
    rows at a time and so more passes over the weights; at least one row is always taken.
    """
    winograd: int = 1 << 20
    """
    Bytes of scratch memory that a float layer may take to save products by Winograd's transforms;
    0 leaves them out.
    """

    tile_rank: int = 0
    """Which register tiles are taken: the best by the model of cycles, the second, and so on."""
    choices: tuple[tuple[int, "LayerChoice"], ...] = ()
    """What was measured to be better for single layers, by their numbers."""

    def of_layer(self, index: int) -> "COptions":
        """The options of one layer."""
        for number, choice in self.choices:
            if number == index:
                return replace(
                    self,
                    tile_rank=choice.tile_rank,
                    workspace=choice.workspace,
                    winograd=choice.winograd,
                    choices=(),
                )
        return self

    MAX_ROWS = 8
    """Rows of windows at a time: each pass over the weights serves so many outputs."""
