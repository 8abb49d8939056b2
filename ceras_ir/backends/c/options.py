"""
What a user may choose about the generated C, and the computer that it is built for.

A computer is read from TOML: its compiler, and the flags that name its processor. The C is the same
for all computers: macros that compilers define choose among its kernels.
"""

from dataclasses import dataclass, replace

from xdsl.utils.hints import isa

from ceras_ir.backends.c.board import Board, described, parse_board
from ceras_ir.backends.c.kernels import filled
from ceras_ir.backends.c.names import MODEL, Prefix, Weights
from ceras_ir.support.diagnostics import InputError, did_you_mean
from ceras_ir.support.files import parse_toml
from ceras_ir.targets.capabilities import board_text
from ceras_ir.transforms.quantization.analysis.time_model import HOST

FIELDS = ("title", "compiler", "flags")
RATES = ("products_per_us", "bytes_per_us")
"""Those that may be left out: then nothing is predicted."""


@dataclass(frozen=True)
class Machine:
    """What the build files take as the default."""

    title: str
    compiler: str
    flags: tuple[str, ...]
    link_flags: tuple[str, ...] = ()
    is_bare: bool = False
    """Whether there is no operating system: a debugger has files and console."""
    products_per_us: float | None = None
    """Of int8 in dense layers, as the kernels compute them on one core."""
    bytes_per_us: float | None = None
    """Of values that one core reads or writes."""

    @property
    def is_native(self) -> bool:
        return self == NATIVE


MEASURED_PRODUCTS_PER_US = 240_000
"""On an x86-64 host with 512-bit vectors; `benchmarks/predicted_times.py` prints how far off."""

NATIVE = Machine(
    "this machine",
    "cc",
    ("-march=native",),
    products_per_us=MEASURED_PRODUCTS_PER_US,
    bytes_per_us=2 * MEASURED_PRODUCTS_PER_US / HOST.element,
)
"""The machine that the build files are run on."""


def parse_machine(text: str, file: str) -> Machine:
    """The machine that the TOML `text` describes; `file` is named in messages."""
    content = parse_toml(text, file)
    if unknown := sorted(set(content) - {*FIELDS, *RATES}):
        hint = did_you_mean(unknown[0], [*FIELDS, *RATES])
        raise InputError(f"a computer has no field '{unknown[0]}'{hint}", file)
    if missing := [name for name in FIELDS if name not in content]:
        raise InputError(f"description of a computer without '{missing[0]}'", file)
    title, compiler, flags = (content[name] for name in FIELDS)
    for name, value in (("title", title), ("compiler", compiler)):
        if not isinstance(value, str):
            raise InputError(f"{name} must be text, got {value!r}", file)
    if not isa(flags, list[str]):
        raise InputError(f"flags must be a list of texts, got {flags!r}", file)
    rates: dict[str, float] = {}
    for name in (name for name in RATES if name in content):
        value = content[name]
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 < value < 1e9:
            raise InputError(f"{name} must be a number above 0, got {value!r}", file)
        rates[name] = float(value)
    return replace(Machine(str(title), str(compiler), tuple(flags)), **rates)


def load_machine(name: str) -> Machine | Board:
    """
    Return the machine called `name` (`raspberry_pi_5`, ...) or described in a TOML file of this
    path. A description with one of the fields `BOARD_FIELDS` is the board of a microcontroller.
    """
    text = board_text("c", "ceras_ir.backends.c", name)
    is_board = not BOARD_FIELDS.isdisjoint(parse_toml(text, name))
    return (parse_board if is_board else parse_machine)(text, name)


BOARD_FIELDS = frozenset({"fqbn", "core", "flash_bytes", "sram_bytes"})


def bare_machine(board: Board) -> Machine:
    """A microcontroller without its Arduino core: files and console are a debugger's."""
    tools = board.known_core.tools
    holes = {"FLASH": board.flash_bytes, "SRAM": board.sram_bytes}
    link = tuple(filled(flag, holes) for flag in tools.console)
    flags = (*board.flags, *tools.console_flags)
    return Machine(board.title, f"{tools.prefix}gcc", flags, link, is_bare=True)


def machine_names() -> list[str]:
    """Machines that come with the compiler."""
    return described("compiler")


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
