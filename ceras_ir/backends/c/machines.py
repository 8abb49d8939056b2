"""
Read computers and microcontroller boards from TOML: memories, core, compiler and flags.

`CORES` holds the facts about each core that do not depend on the board. The C is the same for all
computers: macros that compilers define choose among the kernels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from ceras_ir.backends.c.names import MODEL, Prefix, WeightStorage
from ceras_ir.backends.c.values import filled
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import parse_toml
from ceras_ir.targets.board_files import (
    BoardSummary,
    board_field,
    board_files,
    board_text,
    byte_text,
    read_fields,
)
from ceras_ir.transforms.quantization.analysis.time_model import HOST


@dataclass(frozen=True)
class Tools:
    """
    The compiler for a family of cores without an operating system: the prefix of its commands, and
    flags.
    """

    prefix: str
    small: tuple[str, ...]
    """Flags of a small C library, for compiling and linking."""
    console: tuple[str, ...]
    """
    Link flags if a debugger provides files and console; `@FLASH@` and `@SRAM@` are bytes. Without
    them, the framework of the board links such programs.
    """
    console_flags: tuple[str, ...] = ()
    """The part of `console` that compiling needs too."""
    startup: str = "startup.c"
    """The file of `emulation/` with which a program starts."""


ARM = Tools("arm-none-eabi-", ("-specs=nano.specs",), ("--specs=rdimon.specs",))
RISCV = Tools(
    "riscv64-unknown-elf-",
    ("--specs=picolibc.specs",),
    ("--oslib=semihost", "-Wl,--defsym=__flash_size=@FLASH@", "-Wl,--defsym=__ram_size=@SRAM@"),
    console_flags=("--specs=picolibc.specs",),
    startup="startup_riscv.c",
)
XTENSA = Tools("xtensa-esp32s3-elf-", (), (), startup="startup_xtensa.c")


@dataclass(frozen=True)
class Emulation:
    """
    A machine of the emulator qemu that runs programs for a microcontroller, with its memory
    addresses.
    """

    machine: str
    instructions_per_tick: float
    """Instructions per tick of SysTick with `-icount shift=0`, which depends on the clock."""
    flash_origin: int = 64
    """The address of memory that holds the flash of a board, after the vectors at 0."""
    sram_origin: int = 0x2000_0000
    vectors_origin: int = 0
    """The address of the 64 bytes of vectors, with which a Cortex-M starts."""


AN386 = Emulation("mps2-an386", 40)
"""The emulation of a Cortex-M4."""

AN547 = Emulation("mps3-an547", 31.25, 0x6000_0000, 0x6200_0000)
"""
The emulation of a Cortex-M55, which has all instructions of Armv8-M cores and of a Cortex-M7. Its
DDR holds the memories of a board, because the internal memories are smaller than those of many
boards.
"""


@dataclass(frozen=True)
class Core:
    """
    The properties of a processor core, such as `cortex-m4`, on which code sizes, times and the
    choice of kernels depend.
    """

    has_dsp: bool = False
    """Whether the core has the DSP extension, such as SMLAD."""
    has_helium: bool = False
    """Whether the core has Helium, the vector extension of the M profile."""
    float_library_bytes: int = 0
    """Bytes that the library of the compiler adds for floats if the core has no float unit."""
    emulation: Emulation | None = None
    """A machine of qemu whose core has all instructions of this core, if any."""
    tools: Tools = ARM
    bytes_per_operator: float = 2.6
    """Bytes of code at -Os for each operator in the text of the C."""
    code_margin: float = 0.3
    """The relative error of the code estimate. Constants are exact."""
    flags: tuple[str, ...] = ()
    """The flags of the compiler for a core with all its usual units, such as the float unit."""
    has_times: bool = True
    """Whether instruction counts of kernels, counted on a Cortex-M4, apply to this core."""


Level: TypeAlias = Literal["-Os", "-O2", "-O3"]
"""An optimization level of the C compiler."""


@dataclass(frozen=True)
class LevelCosts:
    """
    Bytes and instructions of generated code with an optimization level of the C compiler, relative
    to -Os (1.0).

    Rounded means of `benchmarks/size_or_speed.py --levels` over six networks.
    """

    code: float
    kernels: float
    """Instructions of kernels for the DSP extension."""
    loops: float
    """Instructions of loops over integers on a core with the DSP extension."""
    small_loops: float
    """Instructions of loops over integers on other cores."""
    floats: float


LEVEL_COSTS: dict[Level, LevelCosts] = {
    "-Os": LevelCosts(1.0, 1.0, 1.0, 1.0, 1.0),
    "-O2": LevelCosts(1.15, 0.95, 0.58, 1.1, 0.96),
    "-O3": LevelCosts(2.0, 0.88, 0.44, 0.88, 0.92),
}

HARD_FLOAT = "-mfloat-abi=hard"
"""The flag of a board whose float unit is used."""


def _arm(core: str, *unit: str) -> tuple[str, ...]:
    return (f"-mcpu={core}", "-mthumb", *unit)


SINGLE_FLOAT = ("-mfpu=fpv5-sp-d16", HARD_FLOAT)

CORES = {
    "cortex-m0": Core(float_library_bytes=3400, emulation=AN386, flags=_arm("cortex-m0")),
    "cortex-m0plus": Core(float_library_bytes=3400, emulation=AN386, flags=_arm("cortex-m0plus")),
    "cortex-m23": Core(float_library_bytes=3400, emulation=AN547, flags=_arm("cortex-m23")),
    "cortex-m3": Core(float_library_bytes=1400, emulation=AN386, flags=_arm("cortex-m3")),
    "cortex-m4": Core(
        has_dsp=True,
        emulation=AN386,
        flags=_arm("cortex-m4", "-mfpu=fpv4-sp-d16", HARD_FLOAT),
    ),
    "cortex-m7": Core(
        has_dsp=True, emulation=AN547, flags=_arm("cortex-m7", "-mfpu=fpv5-d16", HARD_FLOAT)
    ),
    "cortex-m33": Core(has_dsp=True, emulation=AN547, flags=_arm("cortex-m33", *SINGLE_FLOAT)),
    "cortex-m35p": Core(has_dsp=True, emulation=AN547, flags=_arm("cortex-m35p", *SINGLE_FLOAT)),
    "cortex-m55": Core(
        has_dsp=True, has_helium=True, emulation=AN547, flags=_arm("cortex-m55", HARD_FLOAT)
    ),
    # The flags name the architecture, because gcc 12 does not know the core.
    "cortex-m85": Core(
        has_dsp=True,
        has_helium=True,
        emulation=AN547,
        flags=("-march=armv8.1-m.main+mve.fp+fp.dp", "-mthumb", HARD_FLOAT),
    ),
    "rv32imc": Core(
        flags=("-march=rv32imc", "-mabi=ilp32"),
        float_library_bytes=3200,
        tools=RISCV,
        bytes_per_operator=3.8,
        code_margin=0.4,
        has_times=False,
    ),
    # Measured with integers on an LX106, which has the same base instructions.
    "xtensa-lx7": Core(
        flags=("-mlongcalls",),
        tools=XTENSA,
        bytes_per_operator=2.8,
        code_margin=0.4,
        has_times=False,
    ),
}
"""The cores by the name that a board specifies as `core`."""

MAX_CLOCK_MHZ = 100_000


@dataclass(frozen=True)
class Board:
    """
    A microcontroller board. The sizes of memories are the totals of the board, reserved bytes
    included.
    """

    title: str = board_field(example='"My board"')
    """The name of the board in reports."""
    core: str = board_field(choices=CORES, kind="core")
    """The core, which determines the compiler, the kernels and the model of times."""
    clock_mhz: int = board_field(minimum=1, maximum=MAX_CLOCK_MHZ, example="48")
    """The clock of the core."""
    flash_bytes: int = board_field(minimum=1, example="262144")
    """The flash memory of the board."""
    sram_bytes: int = board_field(minimum=1, example="32768")
    """The static RAM of the board."""
    flags: tuple[str, ...] = board_field(())
    """
    The flags of the compiler that select the core. `-mfloat-abi=hard` uses the floating-point unit.
    By default the flags of `core`, with this flag if most chips with the core have such a unit.
    """
    architecture: str = board_field("")
    """The architecture of the Arduino core, such as `renesas_uno`."""
    fqbn: str = board_field("")
    """The name of the board for `arduino-cli --fqbn`."""
    reserved_flash_bytes: int = board_field(0)
    """Flash of the framework and of other code, which the model cannot use."""
    reserved_sram_bytes: int = board_field(0)
    """Static RAM of the framework and of other code, which the model cannot use."""
    stack_bytes: int = board_field(1024)
    """Static RAM that is kept free for the stack."""

    @property
    def summary(self) -> BoardSummary:
        flash, sram = byte_text(self.flash_bytes), byte_text(self.sram_bytes)
        return BoardSummary(self.title, f"{self.core}, {self.clock_mhz} MHz", f"{flash} + {sram}")

    @property
    def known_core(self) -> Core:
        return CORES[self.core]

    @property
    def has_dsp(self) -> bool:
        return self.known_core.has_dsp

    @property
    def has_helium(self) -> bool:
        return self.known_core.has_helium

    @property
    def has_float_unit(self) -> bool:
        return HARD_FLOAT in self.flags

    @property
    def free_flash(self) -> int:
        return self.flash_bytes - self.reserved_flash_bytes

    @property
    def free_sram(self) -> int:
        return self.sram_bytes - self.reserved_sram_bytes - self.stack_bytes


def parse_board(content: Mapping[str, object], file: str) -> Board:
    """
    Return the microcontroller board that `content`, the fields of a TOML file, describes. Errors
    are raised as `InputError` and name `file`.
    """
    board = read_fields(Board, content, file)
    if "flags" not in content:
        board = replace(board, flags=board.known_core.flags)
    if board.free_flash < 1 or board.free_sram < 1:
        raise InputError("the reserved bytes leave no memory for a model", file)
    for flag in board.flags:
        core = flag.removeprefix("-mcpu=").partition("+")[0]
        if flag.startswith("-mcpu=cortex-m") and core != board.core:
            raise InputError(
                f"the flag '{flag}' selects another core than core = \"{board.core}\": correct one "
                "of both",
                file,
            )
    return board


BOARD_FIELDS = frozenset({"fqbn", "core", "flash_bytes", "sram_bytes"})

ARDUINO_FIELDS = {
    "fqbn": "the name of the board in arduino-cli (arduino-cli board listall), such as fqbn = "
    '"arduino:mbed_nano:nano33ble"',
    "architecture": 'the second part of fqbn, such as architecture = "mbed_nano"',
}
"""The fields that only target arduino needs, and how to find their values."""


def load_board(name: str) -> Board:
    """
    Return a board of target arduino by name (`uno_r4_wifi`, ...) or by the path of a TOML file.
    Fields that only this target needs must be present; otherwise `InputError`.
    """
    text = board_text("arduino", "ceras_ir.backends.c", name, known=board_names())
    board = parse_board(parse_toml(text, name), name)
    for field, remedy in ARDUINO_FIELDS.items():
        if not getattr(board, field):
            raise InputError(f"the board has no field '{field}': add {remedy}", name)
    return board


def board_names() -> list[str]:
    """
    Return the names of the boards that target arduino supports: the board files with the field
    `fqbn`.
    """
    return described("fqbn")


def described(field: str) -> list[str]:
    """Return the names of the board files of this package that have the TOML field `field`."""
    shipped = board_files("ceras_ir.backends.c").items()
    return [name for name, f in shipped if field in parse_toml(f.read_text("utf-8"), f.name)]


@dataclass(frozen=True)
class Machine:
    """
    The compiler, flags and speed of a computer or microcontroller, with which the build files of
    the network are written.
    """

    title: str
    compiler: str
    flags: tuple[str, ...]
    link_flags: tuple[str, ...] = ()
    is_bare: bool = False
    """Whether a debugger provides files and console, because there is no operating system."""
    products_per_us: float | None = None
    bytes_per_us: float | None = None
    cycles_per_us: float | None = None
    cache_bytes: int | None = None
    memory_bytes_per_us: float | None = None

    @property
    def summary(self) -> BoardSummary:
        return BoardSummary(self.title, " ".join(self.flags))

    @property
    def is_native(self) -> bool:
        return self == NATIVE_MACHINE

    @property
    def has_amx(self) -> bool:
        """Whether the flags select a processor with tiles of AMX."""
        return any(flag in self.flags for flag in AMX_FLAGS)


AMX_FLAGS = "-march=sapphirerapids", "-march=emeraldrapids", "-march=graniterapids", "-mamx-int8"
"""Flags of gcc and clang that select processors with AMX."""

MEASURED_PRODUCTS_PER_US = 240_000
"""Measured on an x86-64 host with 512-bit vectors; see `benchmarks/predicted_times.py`."""

LAST_CACHE_BYTES, MEASURED_MEMORY_BYTES_PER_US = 32 << 20, 16_000
"""The last cache of this host, and the rate of loads from its memory."""

NATIVE_MACHINE = Machine(
    "this machine",
    "cc",
    ("-march=native",),
    products_per_us=MEASURED_PRODUCTS_PER_US,
    bytes_per_us=2 * MEASURED_PRODUCTS_PER_US / HOST.element,
    cache_bytes=LAST_CACHE_BYTES,
    memory_bytes_per_us=MEASURED_MEMORY_BYTES_PER_US,
)


@dataclass(frozen=True)
class Computer:
    """
    A computer with an operating system, as described in a board file. A time is predicted only if
    both rates are given.
    """

    title: str = board_field(example='"My computer"')
    """The name of the computer in reports."""
    compiler: str = board_field(example='"aarch64-linux-gnu-gcc"')
    """The C compiler in build files."""
    flags: tuple[str, ...] = board_field(example='["-mcpu=cortex-a76"]')
    """The flags of the compiler that select the core."""
    products_per_us: float | None = board_field(None, is_positive=True)
    """Products of int8 in dense layers, as the kernels compute them on one core."""
    bytes_per_us: float | None = board_field(None, is_positive=True)
    """Bytes of values that one core loads or stores."""
    cycles_per_us: float | None = board_field(None, is_positive=True)
    """Modelled cycles of vector kernels; by default one for 64 products."""
    cache_bytes: int | None = board_field(None, minimum=1)
    """The largest cache that one core uses without sharing."""
    memory_bytes_per_us: float | None = board_field(None, is_positive=True)
    """Bytes that one core loads from beyond this cache; without it, caches are not modelled."""


def load_machine(name: str) -> Machine | Board:
    """
    Return the computer or the microcontroller board with the name `name`, or from the TOML file at
    this path. A file with any of `BOARD_FIELDS`, such as `flash_bytes`, is a board.
    """
    content = parse_toml(board_text("c", "ceras_ir.backends.c", name), name)
    if not BOARD_FIELDS.isdisjoint(content):
        return parse_board(content, name)
    return Machine(**vars(read_fields(Computer, content, name)))


def bare_machine(board: Board) -> Machine:
    """
    Return the compiler and flags for programs on `board` without operating system and without the
    Arduino framework. A debugger provides files and console (semihosting).
    """
    tools = board.known_core.tools
    holes = {"FLASH": board.flash_bytes, "SRAM": board.sram_bytes}
    link = tuple(filled(flag, holes) for flag in tools.console)
    flags = (*board.flags, *tools.console_flags)
    return Machine(board.title, f"{tools.prefix}gcc", flags, link, is_bare=True)


def machine_names() -> list[str]:
    """
    Return the names of the computers that target c supports: board files with the field `compiler`.
    """
    return described("compiler")


@dataclass(frozen=True)
class LayerChoice:
    """The options that `--tune` selects for a layer. The fields have the meanings of `COptions`."""

    tile_rank: int
    workspace: int
    winograd: int


@dataclass(frozen=True)
class COptions:
    """
    The options for printing a network as C: the machine, the sets of kernels, and limits of memory.
    """

    title: str = "model"
    prefix: Prefix = MODEL
    weights: WeightStorage = "source"
    """
    Store constants as string literals in `model_weights.c` (source), or in `model.weights`, which
    the program loads (file) or which GNU compilers for ELF include in the program (incbin).
    """
    machine: Machine = NATIVE_MACHINE
    """The machine for which the build files compile by default."""
    vectors: bool = True
    """Whether to print kernels in vectors in addition to the portable loops."""
    dsp: bool = False
    """Whether the core multiplies pairs of 16-bit numbers, as the Cortex-M4 does."""
    helium: bool = False
    """Whether the core has Helium."""
    stored_filters: frozenset[int] = frozenset()
    """Layers that may store filters in constant memory after the Winograd transform."""
    workspace: int = 256 * 1024
    """
    Bytes of scratch memory that a layer may use for rows of windows. Fewer bytes mean fewer rows at
    a time, so more passes over the weights. The minimum is one row.
    """
    winograd: int = 1 << 20
    """
    Bytes of scratch memory of a float layer for Winograd transforms; 0 disables transforms at run
    time for all types.
    """

    tile_rank: int = 0
    """The rank of the register tiles by the model of cycles; 0 is the best."""
    common_tiles: bool = False
    """Whether layers that differ in the number of positions have the same register tile."""
    choices: tuple[tuple[int, "LayerChoice"], ...] = ()
    """Measured choices for single layers, by layer index."""
    level: Level = "-O3"
    """The optimization level of the build files, unless their user specifies another."""

    def of_layer(self, index: int) -> "COptions":
        """
        Return the options for the layer `index`: with the measured choice of `--tune` for it, if
        any.
        """
        choice = dict(self.choices).get(index)
        return self if choice is None else replace(self, **vars(choice), choices=())

    MAX_ROWS = 8
    """Rows of windows at a time: the number of outputs that share a pass over the weights."""
