"""
Count the instructions of layers in XNNPACK and ncnn, built for other processors, under qemu.

Both are given as the folders of their builds by CMake, with static libraries: for 64-bit Arm by
aarch64-linux-gnu-gcc, for RISC-V by clang. XNNPACK needs `XNNPACK_ENABLE_KLEIDIAI=OFF`, and ncnn
`NCNN_OPENMP=OFF`, `NCNN_THREADS=OFF` and `NCNN_BF16=OFF`. XNNPACK reads a description of the
processor from the system, which would be that of this machine: `described` writes another.
"""

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cross import Cross, instructions_of_run

from ceras_ir.dialects.graph import Conv2dOp, LinearOperation, shape_of

HERE = Path(__file__).parent

DESCRIPTION = """\
processor : 0
Features : fp asimd
CPU implementer : 0x41
CPU architecture: 8
CPU variant : 0x0
CPU part : 0xd08
CPU revision : 4
"""
"""A core of the kind Cortex-A72; further instructions are those that the emulator reports."""


def described(folder: Path) -> Path:
    """Write the files by which programs under qemu see one core, and return the folder."""
    cores = folder / "sys/devices/system/cpu"
    cores.mkdir(parents=True)
    for name in ("possible", "present", "kernel_max"):
        (cores / name).write_text("0\n")
    (folder / "proc").mkdir()
    (folder / "proc/cpuinfo").write_text(DESCRIPTION)
    return folder


def description(op: LinearOperation, *, is_float: bool) -> str:
    """Return the argument of the programs for a layer."""
    if isinstance(op, Conv2dOp):
        _, height, width, channels = shape_of(op.input)
        outputs, kernel_h, kernel_w, _ = shape_of(op.weights)
        numbers = (
            height, width, channels, outputs, kernel_h, kernel_w, *op.strides.get_values(),
            *op.dilations.get_values(), *op.padding.get_values(), op.group_count,
        )  # fmt: skip
    else:
        outputs, channels = shape_of(op.weights)
        numbers = 1, 1, channels, outputs, *(1,) * 6, *(0,) * 4, 1
    return ",".join(map(str, (int(is_float), *numbers)))


@dataclass(frozen=True)
class Peer:
    """A program that runs layers of another library."""

    name: str
    program: Path
    emulator: tuple[str, ...]
    plugin: Path

    def count(self, layers: Sequence[str], cpu: str) -> int:
        """
        Return the instructions of an inference of layers, given by `description`, on the processor
        `cpu` of qemu.
        """
        emulator = (*self.emulator, "-cpu", cpu)
        return instructions_of_run(emulator, self.plugin, self.program, *layers)


def _settings(build: Path) -> Mapping[str, str]:
    lines = (build / "CMakeCache.txt").read_text().splitlines()
    pairs = (line.split("=", 1) for line in lines if ":" in line and "=" in line)
    return {key.partition(":")[0]: value for key, value in pairs}


def peers(
    cross: Cross, work: Path, plugin: Path, xnnpack: Path | None, ncnn: Path | None
) -> list[Peer]:
    """Build the programs of the peers of which a build is given."""
    emulator = (cross.emulator[0], "-L", str(described(work / "system")))
    found: list[Peer] = []
    for name, build, source in (
        ("XNNPACK", xnnpack, HERE / "cross_xnnpack.c"), ("ncnn", ncnn, HERE / "cross_ncnn.cc"),
    ):  # fmt: skip
        if build is None:
            continue
        settings, program = _settings(build), work / name
        home = Path(settings["CMAKE_HOME_DIRECTORY"])
        compiler = [*cross.compiler]
        if source.suffix == ".cc":
            compiler[0] = compiler[0].replace("-gcc", "-g++").replace("clang-", "clang++-")
        folders = [home / "include", home / "src", build / "src"]
        if "PTHREADPOOL_SOURCE_DIR" in settings:
            folders.append(Path(settings["PTHREADPOOL_SOURCE_DIR"]) / "include")
        libraries = sorted(build.rglob("*.a"))
        command = [
            *compiler, "-O2", *(f"-I{folder}" for folder in folders), source, "-o", program,
            "-static", "-Wl,--start-group", *libraries, "-Wl,--end-group", "-lpthread", "-lm",
        ]  # fmt: skip
        subprocess.run(command, check=True)
        found.append(Peer(name, program, emulator, plugin))
    return found
