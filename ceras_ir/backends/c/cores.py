"""What is known of a microcontroller's core beyond its board: one entry for each."""

from dataclasses import dataclass


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
    """The defaults are those of a core that is not in the table."""

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
    "cortex-m0plus": Core(float_library_bytes=3400, is_emulated=True),
    "cortex-m3": Core(float_library_bytes=1400, is_emulated=True),
    "cortex-m4": Core(has_dsp=True, is_emulated=True),
    "cortex-m7": Core(has_dsp=True),
    "cortex-m33": Core(has_dsp=True),
    "cortex-m35p": Core(has_dsp=True),
    "cortex-m55": Core(has_dsp=True),
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
