"""
A microcontroller board, read from TOML: its memories, its core, and how to compile for it.

`CORES` has an entry for each core with the facts that do not depend on the board.
"""

from dataclasses import dataclass, fields
from typing import get_type_hints

from xdsl.utils.hints import isa

from ceras_ir.support.diagnostics import InputError, did_you_mean
from ceras_ir.support.files import parse_toml
from ceras_ir.targets.capabilities import board_files, board_text


@dataclass(frozen=True)
class Tools:
    """A compiler for programs without an operating system."""

    prefix: str
    small: tuple[str, ...]
    """Flags of a small C library, for compiling and linking."""
    console: tuple[str, ...]
    """
    Flags that link programs whose files and console are a debugger's; `@FLASH@` and `@SRAM@` bytes.
    Without any, the board's own framework has to link them.
    """
    console_flags: tuple[str, ...] = ()
    """Those of them that compiling needs too."""
    startup: str = "startup.c"
    """What `emulation/` starts a program with."""


ARM = Tools("arm-none-eabi-", ("-specs=nano.specs",), ("--specs=rdimon.specs",))
RISCV = Tools(
    "riscv64-unknown-elf-",
    ("--specs=picolibc.specs",),
    (
        "--oslib=semihost",
        "-Wl,--defsym=__flash_size=@FLASH@",
        "-Wl,--defsym=__ram_size=@SRAM@",
    ),
    console_flags=("--specs=picolibc.specs",),
    startup="startup_riscv.c",
)
XTENSA = Tools("xtensa-esp32s3-elf-", (), (), startup="startup_xtensa.c")


@dataclass(frozen=True)
class Core:
    """The facts of a core that sizes, times and kernels depend on."""

    has_dsp: bool = False
    """Whether it has the DSP extension: SMLAD and its like."""
    float_library_bytes: int = 0
    """What the compiler's library adds for floats where the core computes none."""
    is_emulated: bool = False
    """Whether the emulated core, a Cortex-M4, has all of its instructions."""
    tools: Tools = ARM
    bytes_per_operator: float = 2.2
    """Of code at -Os, for each operator in the text of the C."""
    code_margin: float = 0.3
    """The code of a model is within this share of its estimate; constants are exact."""
    has_times: bool = True
    """Whether the instructions that kernels take, counted on a Cortex-M4, say anything of it."""


CORES = {
    "cortex-m0": Core(float_library_bytes=3400, is_emulated=True),
    "cortex-m0plus": Core(float_library_bytes=3400, is_emulated=True),
    "cortex-m23": Core(float_library_bytes=3400),
    "cortex-m3": Core(float_library_bytes=1400, is_emulated=True),
    "cortex-m4": Core(has_dsp=True, is_emulated=True),
    "cortex-m7": Core(has_dsp=True),
    "cortex-m33": Core(has_dsp=True),
    "cortex-m35p": Core(has_dsp=True),
    "cortex-m55": Core(has_dsp=True),
    "cortex-m85": Core(has_dsp=True),
    "rv32imc": Core(
        float_library_bytes=3200,
        tools=RISCV,
        bytes_per_operator=3.2,
        code_margin=0.4,
        has_times=False,
    ),
    # Measured on an LX106 with integers, whose base instructions are the same.
    "xtensa-lx7": Core(
        tools=XTENSA,
        bytes_per_operator=2.4,
        code_margin=0.4,
        has_times=False,
    ),
}
"""By the name in a board's `core`."""


@dataclass(frozen=True)
class Board:
    """Bytes are those of the whole board; what is reserved is not the model's."""

    title: str
    core: str
    clock_mhz: int
    flash_bytes: int
    sram_bytes: int
    architecture: str
    """Of `library.properties`."""
    fqbn: str
    """What `arduino-cli --fqbn` calls the board."""
    flags: tuple[str, ...]
    """Of the compiler, for the core alone."""
    reserved_flash_bytes: int = 0
    reserved_sram_bytes: int = 0
    stack_bytes: int = 1024

    @property
    def known_core(self) -> Core:
        return CORES[self.core]

    @property
    def has_dsp(self) -> bool:
        return self.known_core.has_dsp

    @property
    def has_float_unit(self) -> bool:
        """Whether the compiler is told to use one."""
        return "-mfloat-abi=hard" in self.flags

    @property
    def free_flash(self) -> int:
        """Flash that the model may take."""
        return self.flash_bytes - self.reserved_flash_bytes

    @property
    def free_sram(self) -> int:
        """SRAM that the model may take, the stack apart."""
        return self.sram_bytes - self.reserved_sram_bytes - self.stack_bytes


REMEDIES = {
    "fqbn": ": add the name of the board in arduino-cli (arduino-cli board listall), such as fqbn "
    '= "arduino:mbed_nano:nano33ble"',
    "core": f": add one of {', '.join(CORES)}",
}
"""The ends of messages about fields that a board must have."""


def parse_board(text: str, file: str) -> Board:
    """The board that the TOML `text` describes; `file` is named in messages."""
    content = parse_toml(text, file)
    types = get_type_hints(Board)
    optional = ("reserved_flash_bytes", "reserved_sram_bytes", "stack_bytes")
    if unknown := sorted(set(content) - set(types)):
        hint = did_you_mean(unknown[0], types)
        raise InputError(f"a board has no field '{unknown[0]}'{hint}", file)
    for field in fields(Board):
        name, kind = field.name, types[field.name]
        if name not in content:
            if name in optional:
                continue
            raise InputError(f"the board has no field '{name}'{REMEDIES.get(name, '')}", file)
        value = content[name]
        if kind is int and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
            raise InputError(f"{name} must be an integer of at least 0, got {value!r}", file)
        if kind is str and not isinstance(value, str):
            raise InputError(f"{name} must be text, got {value!r}", file)
        if name == "flags":
            if not isa(value, list[str]):
                raise InputError(f"flags must be a list of texts, got {value!r}", file)
            content[name] = tuple(value)
    board = Board(**content)
    if board.core not in CORES:
        hint, known = did_you_mean(board.core, CORES), ", ".join(CORES)
        raise InputError(f"core '{board.core}' is not known{hint} (cores: {known})", file)
    if board.free_flash < 1 or board.free_sram < 1:
        raise InputError("the reserved bytes leave no memory for a model", file)
    return board


def load_board(name: str) -> Board:
    """A board by name (`uno_r4_wifi`, ...) or by the path of a TOML file."""
    text = board_text("arduino", "ceras_ir.backends.c", name, known=board_names())
    return parse_board(text, name)


def board_names() -> list[str]:
    """Boards that come with the compiler; descriptions without `fqbn` are other machines'."""
    return described("fqbn")


def described(field: str) -> list[str]:
    """The descriptions of this package that have a field."""
    every = board_files("ceras_ir.backends.c").items()
    return [name for name, f in every if field in parse_toml(f.read_text("utf-8"), f.name)]
