"""Define target arduino: a sketch for the Arduino IDE that fits the board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ceras_ir.backends.c.names import (
    EncodingChoice,
    EncodingOptions,
    OptimizeOptions,
    Prefix,
    PrefixOptions,
)
from ceras_ir.command.output_files import is_inside
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.options import inherited
from ceras_ir.targets import (
    PROCESSOR_ARITHMETIC,
    Emission,
    Emulated,
    Manifest,
    NotEmulated,
    Stage,
    Target,
)
from ceras_ir.targets.shared_options import BoardOptions

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from ceras_ir.backends.c.runner import CompiledC
    from ceras_ir.targets.board_files import BoardSummary


@dataclass(frozen=True)
class ArduinoTarget(PrefixOptions, EncodingOptions, OptimizeOptions, BoardOptions, Target):
    """A folder that is a sketch and a library. A network that does not fit the board is refused."""

    name = "arduino"
    arithmetic = PROCESSOR_ARITHMETIC
    keeps_states = True
    programs: ClassVar = {
        "build and upload sketches": ("arduino-cli", "arduino"),
        "run on this machine": ("cc",),
        "build for Cortex-M": ("arm-none-eabi-g++",),
        "emulate Cortex-M": ("qemu-system-arm",),
    }

    board: str = inherited(BoardOptions, "board", "uno_r4_wifi")
    encoding: EncodingChoice = inherited(EncodingOptions, "encoding", "auto")

    def check(self) -> None:
        super().check()
        Prefix(self.prefix)

    @classmethod
    def boards(cls) -> Mapping[str, Traversable]:
        """
        Return the board files of the microcontrollers that have the fields for Arduino, by name.
        """
        from ceras_ir.backends.c.machines import board_names
        from ceras_ir.backends.c.target import CTarget

        return {name: file for name, file in CTarget.boards().items() if name in board_names()}

    @classmethod
    def why_not(cls, op: Operation) -> str | None:
        from ceras_ir.backends.c.target import why_not_printed

        return why_not_printed(op)

    @classmethod
    def board_types(cls) -> tuple[type, ...]:
        from ceras_ir.backends.c.machines import Board

        return (Board,)

    @classmethod
    def check_board(cls, name: str) -> None:
        from ceras_ir.backends.c.machines import load_board

        load_board(name)

    @classmethod
    def board_summary(cls, name: str) -> BoardSummary:
        from ceras_ir.backends.c.machines import load_board

        return load_board(name).summary

    def encode(self) -> list[Stage]:
        from ceras_ir.backends.c.target import encoding_stage

        return [encoding_stage(self.encoding, self.board)]

    def lower(self) -> list[Stage]:
        from ceras_ir.backends.c.target import lowered

        return lowered(board=self.board)

    def emit(self, module: ModuleOp, title: str) -> Emission:
        from ceras_ir.backends.arduino.sketch import emit

        return emit(module, self.board, title, Prefix(self.prefix), self.optimize)

    def open(self, folder: Path, manifest: Manifest) -> CompiledC:
        from ceras_ir.backends.c.runner import CompiledC

        sketch, prefix = sketch_folder(folder, manifest), Prefix.of_manifest(manifest.content)
        return CompiledC(sketch, manifest.inputs, manifest.outputs, prefix=prefix)

    def other_machines(
        self, folder: Path, manifest: Manifest
    ) -> Iterator[tuple[str, Emulated | NotEmulated]]:
        from ceras_ir.backends.c.emulator import emulated_core

        return emulated_core(sketch_folder(folder, manifest), manifest)


def sketch_folder(folder: Path, manifest: Manifest) -> Path:
    """
    Return the folder of the sketch inside `folder`, which `ceras-compile` wrote. A manifest without
    a sketch, or a missing file, raises `InputError`.
    """
    source = Prefix.of_manifest(manifest.content).renamed("model.c")
    sketch = manifest.content.get("sketch")
    if not isinstance(sketch, str) or not is_inside(folder, f"{sketch}/{source}"):
        raise InputError("names no sketch; compile again", str(folder))
    if not (folder / sketch / source).is_file():
        raise InputError(f"has no sketch with a {source}; compile again", str(folder))
    return folder / sketch
