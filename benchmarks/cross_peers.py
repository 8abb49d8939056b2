"""
Count the instructions of layers in XNNPACK and ncnn, built for other processors, under qemu.

Both are given as the folders of their builds by CMake, with static libraries: for 64-bit Arm by
aarch64-linux-gnu-gcc, for RISC-V by clang. XNNPACK needs `XNNPACK_ENABLE_KLEIDIAI=OFF`, and ncnn
`NCNN_OPENMP=OFF`, `NCNN_THREADS=OFF` and `NCNN_BF16=OFF`. XNNPACK reads a description of the
processor from the system, which would be that of this machine: `described` writes another.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cortex_m import Case
from cross import Cross, instructions_of_run

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


def description(case: Case) -> str:
    """Return the arguments of the programs for a layer."""
    if len(case.shape) == 2:
        height, width, channels, kernel = 1, 1, case.shape[1], (1, 1)
    else:
        _, height, width, channels = case.shape
        kernel = case.weights[1], case.weights[2]
    numbers = (
        int(case.is_float), height, width, channels, case.weights[0], *kernel, *[case.stride] * 2,
        1, 1, *[case.padding] * 4, case.groups,
    )  # fmt: skip
    return ",".join(map(str, numbers))


@dataclass(frozen=True)
class Peer:
    """A program that runs layers of another library."""

    name: str
    program: Path
    emulator: tuple[str, ...]
    plugin: Path

    def count(self, case: Case, cpu: str) -> int:
        """Return the instructions of an inference of a layer on the processor `cpu` of qemu."""
        emulator = (*self.emulator, "-cpu", cpu)
        return instructions_of_run(emulator, self.plugin, self.program, description(case))


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
