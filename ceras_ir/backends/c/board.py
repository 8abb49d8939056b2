"""A microcontroller board, read from TOML: its memories, its core, and how to compile for it."""

from dataclasses import dataclass, fields
from typing import get_type_hints

from xdsl.utils.hints import isa

from ceras_ir.backends.c.cores import CORES, Core
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.suggestions import did_you_mean
from ceras_ir.support.toml_text import parse_toml
from ceras_ir.targets.boards import board_files, board_text


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
        return CORES.get(self.core, Core())

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
            raise InputError(f"board description without '{name}'", file)
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
