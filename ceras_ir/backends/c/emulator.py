"""
Build C for a board, and run programs for Cortex-M under qemu to count instructions.

The linker script has the memories of the board, so that a program that is too large does not link.
qemu runs with `-icount shift=0`, so that ticks of SysTick count instructions (`Emulation`).
"""

import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np

from ceras_ir.backends.c.machines import AN386, CORES, Board, Emulation, load_machine
from ceras_ir.backends.c.names import MODEL, Prefix, identifiers
from ceras_ir.backends.c.runner import run_tool
from ceras_ir.backends.c.values import filled
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.network.length_table import LENGTHS
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.programs import run_program
from ceras_ir.targets.capabilities import Array, Emulated, Manifest, NotEmulated, Sample

ARM_PREFIX = "arm-none-eabi-"
QEMU = "qemu-system-arm"
FIRMWARE_FLAGS = ("-ffunction-sections", "-fdata-sections", "-ffp-contract=off", "-Wall", "-Wextra")
C_FLAGS = ("-std=gnu11", "-Werror")
CXX_FLAGS = ("-std=gnu++17", "-Werror", "-fno-exceptions", "-fno-rtti", "-fno-threadsafe-statics")
FIRMWARE_LEVEL = ("-O2",)

MODEL_SOURCES = ("model.c", "model_weights.c")
"""The sources of a model; the other sources of a folder are programs."""


def available() -> bool:
    """Return whether the compilers for Arm and the emulator qemu are installed."""
    return missing_tool() is None


def missing_tool() -> str | None:
    """
    Return the name of the first program that emulation needs and that is not installed, or `None`.
    """
    tools = f"{ARM_PREFIX}gcc", f"{ARM_PREFIX}g++", QEMU
    return next((tool for tool in tools if shutil.which(tool) is None), None)


def not_emulated(board: Board) -> NotEmulated | None:
    """Return the reason why programs for `board` cannot be emulated on this machine, or `None`."""
    if board.known_core.emulation is None:
        able = ", ".join(name for name, core in CORES.items() if core.emulation is not None)
        return NotEmulated(
            "no emulated core has all instructions of this core",
            f"compile for a board with {able}",
        )
    if (tool := missing_tool()) is not None:
        return NotEmulated(f"{tool} is not installed", "install it")
    return None


def linker_script(flash: int, sram: int, stack: int, emulation: Emulation = AN386) -> str:
    """
    Return the linker script for memories of `flash` and `sram` bytes, of which the last `stack`
    bytes of SRAM are for the stack. `emulation` has the addresses.
    """
    holes = {
        "FLASH": flash,
        "SRAM": sram,
        "STACK": stack,
        "VECTORS": hex(emulation.vectors_origin),
        "FLASH_ORIGIN": hex(emulation.flash_origin),
        "SRAM_ORIGIN": hex(emulation.sram_origin),
    }
    return filled(
        (files("ceras_ir.backends.c") / "emulation" / "board.ld").read_text("ascii"), holes
    )


def write_startup(board: Board, work: Path) -> Path:
    """
    Write the linker script `board.ld` and the start-up code for `board` to the folder `work`.
    Return the path of the start-up code, which must be compiled with the program.
    """
    runtime = files("ceras_ir.backends.c") / "emulation"
    core, stack = board.known_core, board.stack_bytes
    startup = core.tools.startup
    for name in (startup, "prepare_memory.h", "semihosting.h"):
        (work / name).write_text((runtime / name).read_text("ascii"))
    sram, emulation = board.free_sram + stack, core.emulation or AN386
    (work / "board.ld").write_text(linker_script(board.free_flash, sram, stack, emulation))
    return work / startup


def build_elf(
    sources: Sequence[Path],
    board: Board,
    work: Path,
    *,
    include: Sequence[Path] = (),
    flags: Sequence[str] = FIRMWARE_LEVEL,
) -> Path:
    """
    Compile and link `sources` (.c, .cpp, .ino) to a program for `board` in the folder `work`, and
    return its path. `include` are directories of headers. Raise `InputError` if compilation fails
    or the program does not fit the memories.
    """
    tools = board.known_core.tools
    objects: list[str] = []
    for number, source in enumerate([write_startup(board, work), *sources]):
        is_c = source.suffix == ".c"
        driver = f"{tools.prefix}{'gcc' if is_c else 'g++'}"
        command = [driver, *board.flags, *tools.small, *FIRMWARE_FLAGS, *flags]
        command += [*(C_FLAGS if is_c else CXX_FLAGS), f"-I{work}", *(f"-I{p}" for p in include)]
        if source.suffix == ".ino":
            command += ["-x", "c++", "-include", "Arduino.h"]
        objects.append(str(work / f"{number}_{source.stem}.o"))
        run_tool([*command, "-c", str(source), "-o", objects[-1]])
    elf = work / "firmware.elf"
    command = [f"{tools.prefix}gcc", *board.flags, *flags, "-nostartfiles", *tools.small]
    run_tool(
        [*command, "-Wl,--gc-sections", f"-T{work / 'board.ld'}", *objects, "-lm", "-o", str(elf)]
    )
    return elf


def run_elf(elf: Path, work: Path, *, emulation: Emulation = AN386) -> str:
    """
    Run a program in qemu to the end, and return standard output and standard error. Files that it
    opens are in `work`. Another exit status than 0 raises `AssertionError`.
    """
    semihosting = ["-semihosting-config", "enable=on,target=native", "-icount", "shift=0"]
    machine = ["-M", emulation.machine, "-nographic", "-monitor", "none", "-serial", "none"]
    command = [QEMU, *machine, *semihosting, "-kernel", str(elf)]
    done = run_program(command, work)
    if done.returncode != 0:
        raise AssertionError(f"the program left with status {done.returncode}: {done.stderr}")
    return done.stdout + done.stderr


class EmulatedModel:
    """
    A compiled network on an emulated microcontroller. `run` returns the outputs, and stores
    instructions and bytes of stack of each sample in the attributes.
    """

    def __init__(
        self,
        sources: Sequence[Path],
        inputs: Sequence[TensorInfo],
        outputs: Sequence[TensorInfo],
        board: Board,
        work: Path,
        *,
        flags: Sequence[str] = FIRMWARE_LEVEL,
        prefix: Prefix = MODEL,
    ):
        self.sources, self.board, self.work, self.flags = list(sources), board, work, flags
        self.prefix = prefix
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.instructions: list[float] = []
        """Instructions of an inference for each sample of the last run, +- a tick / repeat."""
        self.stack_bytes: list[int] = []
        """
        The bytes of stack that `model_run` used for each sample of the last run, at most 16 KiB.
        """

    def _harness(self, samples: int, repeat: int) -> Path:
        text = (files("ceras_ir.backends.c") / "emulation" / "harness.c").read_text("ascii")
        names = identifiers([t.name for t in (*self.inputs, *self.outputs)], self.prefix.name)
        pairs = list(zip((*self.inputs, *self.outputs), names, strict=True))
        buffers = [
            f"static {'float' if t.dtype == 'float32' else t.dtype + '_t'} {n}_data[{t.size}];"
            for t, n in pairs
        ]
        calls = [
            f"if (transfer({code}, {file}, {n}_data, sizeof {n}_data) != 0) return {status};"
            for (_, n), (code, file, status) in zip(
                pairs,
                [("0x06", "in", 4)] * len(self.inputs) + [("0x05", "out", 6)] * len(self.outputs),
                strict=True,
            )
        ]
        holes = {
            "BUFFERS": "\n".join(buffers),
            "SAMPLES": str(samples),
            "REPEAT": str(repeat),
            "ARGUMENTS": ", ".join(f"{n}_data" for _, n in pairs),
            "READ": "\n    ".join(calls[: len(self.inputs)]),
            "WRITE": "\n    ".join(calls[len(self.inputs) :]),
        }
        path = self.work / "harness.c"
        path.write_text(self.prefix.renamed(filled(text, holes)))
        return path

    def build(self, samples: int = 1, repeat: int = 1) -> Path:
        harness = self._harness(samples, repeat)
        include = [self.sources[0].parent]
        return build_elf(
            [harness, *self.sources], self.board, self.work, include=include, flags=self.flags
        )

    def run(
        self, samples: Sequence[Mapping[str, Array]], *, repeat: int = 1
    ) -> list[dict[str, Array]]:
        elf = self.build(len(samples), repeat)
        with open(self.work / "in.bin", "wb") as stream:
            for sample in samples:
                for info in self.inputs:
                    array = np.asarray(sample[info.name], order="C").astype(info.dtype)
                    stream.write(array.tobytes())
        emulation = self.board.known_core.emulation
        assert emulation is not None
        run_elf(elf, self.work, emulation=emulation)
        data, at = (self.work / "out.bin").read_bytes(), 0
        results: list[dict[str, Array]] = []
        self.instructions, self.stack_bytes = [], []
        for _ in samples:
            result: dict[str, Array] = {}
            for info in self.outputs:
                array = np.frombuffer(data, info.dtype, info.size, at)
                result[info.name] = array.reshape(info.shape)
                at += info.nbytes
            ticks = int.from_bytes(data[at : at + 8], "little")
            self.instructions.append(ticks * emulation.instructions_per_tick / repeat)
            self.stack_bytes.append(int.from_bytes(data[at + 8 : at + 12], "little"))
            at += 12
            results.append(result)
        return results


@dataclass(frozen=True)
class EmulatedFolder:
    """The C files of `folder`, which are compiled for a board and run on its emulated core."""

    folder: Path
    manifest: Manifest
    board: Board

    @property
    def emulator(self) -> str:
        emulation = self.board.known_core.emulation
        assert emulation is not None
        return f"{QEMU}, machine {emulation.machine}"

    def run(self, samples: Sequence[Sample]) -> Iterator[dict[str, Array]]:
        tensors = self.manifest.inputs, self.manifest.outputs
        prefix = Prefix.of_manifest(self.manifest.content)
        sources = [self.folder / prefix.renamed(name) for name in MODEL_SOURCES]
        with tempfile.TemporaryDirectory(prefix="ceras-board-") as work:
            model = EmulatedModel(
                [path for path in sources if path.exists()],
                *tensors,
                self.board,
                Path(work),
                flags=("-Os",),
                prefix=prefix,
            )
            yield from model.run(samples)


def emulated_core(folder: Path, manifest: Manifest) -> Iterator[tuple[str, Emulated | NotEmulated]]:
    """
    Yield the core of the board in the manifest, with an emulation of the C in `folder` on it or the
    reason why there is none. Yield nothing if the manifest has no microcontroller board.
    """
    name = manifest.content.get("board")
    if not isinstance(name, str):
        return
    try:
        board = load_machine(name)
    except InputError as error:
        # This machine runs the folder without the file of the board.
        yield name, NotEmulated(f"{name}: {error.message}", "restore the file of the board")
        return
    if LENGTHS in manifest.content:
        reason = "programs of several lengths are not emulated"
        yield board.title, NotEmulated(reason, "compile a single length")
    elif isinstance(board, Board):
        yield board.core, not_emulated(board) or EmulatedFolder(folder, manifest, board)
