"""What register tiles read and write: distances between elements, and names of vectors."""

from dataclasses import dataclass, replace

from ceras_ir.backends.c.epilogue import Epilogue
from ceras_ir.backends.c.register_tiles import Tile


@dataclass(frozen=True)
class Walk:
    """What a tile reads: distances in elements of the input, and how many."""

    tile: Tile
    runs: int
    """Rows of a window, each contiguous in the input."""
    steps: int
    """Steps of a row."""
    pitch: int
    """From one row of a window to the next."""
    row: int
    """From one output row to the next."""
    column: int
    """From one output position to the next."""
    ends_in_half: bool = False
    """Whether the lower half of the last vector holds all outputs that are left for it."""
    pieces: int = 1
    """Of a row of a window, each contiguous; the steps are those of one."""
    piece: int = 0
    """From one of them to the next."""
    joins_ends: bool = False
    """Whether rows end in a step of one byte, and the ends of all, at most four, are one step."""

    @property
    def offsets(self) -> list[int]:
        """Where each position starts."""
        t = self.tile
        return [r * self.row + c * self.column for r in range(t.rows) for c in range(t.columns)]


@dataclass(frozen=True)
class Stores:
    """Where a tile's results go: distances in elements of the result."""

    row: int
    column: int
    has_residual: bool
    is_masked: bool
    """Whether the last vector of outputs may not be whole."""

    low: bool = True
    """Whether there is a lower bound beside that of the stored type; of integers."""
    high: bool = True
    bits: int = 8
    """Of a stored integer: 8, which may be unsigned, or 16."""
    is_signed: bool = True
    residual_bits: int = 8
    has_factors: bool = False
    """Whether the residual of each output has a factor of its own; else one shift is for all."""
    has_shifts: bool = False
    """Whether each output goes right by bits of its own."""
    scale_bits: int = 0
    """Of products of sums with multipliers, of which each output has its own; 0 without."""

    @property
    def alignment(self) -> tuple[str, str]:
        """Type and name of the parameter that brings residuals to the scale of sums."""
        return ("const int32_t *", "factors") if self.has_factors else ("int32_t ", "left_shift")

    @property
    def shift(self) -> tuple[str, str]:
        """Type and name of the parameter by which sums go right."""
        return ("const int32_t *", "shifts") if self.has_shifts else ("int32_t ", "shift")

    @property
    def residual_kind(self) -> str:
        """Ends the names of functions that read a residual."""
        return f"{self.residual_bits}{'_each' if self.has_factors else ''}"

    def ending_in(self, e: Epilogue, *, has_factors: bool) -> "Stores":
        """The same of what an epilogue computes."""
        return replace(
            self, low=e.has_low, high=e.has_high, bits=e.bits, is_signed=e.least < 0,
            residual_bits=e.residual_bits, scale_bits=e.scale_bits, has_factors=has_factors,
            has_shifts=bool(e.shifts),
        )  # fmt: skip

    @property
    def kind(self) -> str:
        """What macros call a stored integer: I8, U8 or I16."""
        return f"{'I' if self.is_signed else 'U'}{self.bits}"

    @property
    def result(self) -> str:
        """What types call it, such as `int8`."""
        return f"{'' if self.is_signed else 'u'}int{self.bits}"

    @property
    def is_packed(self) -> bool:
        """Whether vectors become bytes several at once."""
        return self.bits == 8 and not self.is_masked

    def clamped(self, value: str, kind: str) -> str:
        """An expression between the bounds of this kind of number, I32, I8 or U8."""
        least, most = f"least_{kind.lower()}", f"most_{kind.lower()}"
        match self.low, self.high:
            case True, True:
                return f"CLAMP_{kind}({value}, {least}, {most})"
            case True, False:
                return f"MAX_{kind}({value}, {least})"
            case False, True:
                return f"MIN_{kind}({value}, {most})"
            case _:
                return value

    def offset(self, tile: Tile, position: int) -> int:
        """Where the outputs of one position of a tile start."""
        return position // tile.columns * self.row + position % tile.columns * self.column


@dataclass(frozen=True)
class Lanes:
    """What the vectors of a kind of number are called."""

    vector: str
    element: str
    step: int
    """Products that one lane adds up in one instruction."""
    load: str
    load_weights: str
    splat: str
    dot: str
    suffix: str = ""
    """Of the names of tiles."""


BYTES = Lanes("model_i32v", "uint8_t", 4, "LOAD_I32", "LOAD_BYTES", "SPLAT", "DOT")
MOVED_BYTES = replace(BYTES, element="int8_t", splat="SPLAT_MOVED", suffix="_moved")
"""Signed bytes, moved by 128 as they are read."""
WORDS = Lanes("model_i32v", "int16_t", 2, "LOAD_I32", "LOAD_WORDS", "SPLAT", "DOT_WORDS", "_words")
"""Elements of 16 bits, two at a time; the bytes of weights are widened as they are read."""
FLOATS = Lanes("model_f32v", "float", 1, "LOAD_F32", "LOAD_F32", "SPLAT_F32", "FMA")


def lanes_of(stored: str) -> Lanes:
    """How elements of a stored type are multiplied by bytes."""
    return WORDS if stored == "int16_t" else BYTES


def inner_loops(element: str, *, has_pieces: bool) -> tuple[list[str], list[str]]:
    """What opens and closes the loops over the pieces and steps of a row, but for the last line."""
    if not has_pieces:
        return [f"    const {element} *at = x;"], ["    }"]
    return [
        f"    const {element} *part = x;",
        "    for (int32_t p = 0; p < pieces; ++p, part += piece) {",
        f"    const {element} *at = part;",
    ], ["    }", "    }"]


def pieces_parameters(*, has_pieces: bool) -> str:
    """The parameters for the pieces of a row, which end with a comma."""
    return "int32_t pieces, int32_t piece, " if has_pieces else ""
