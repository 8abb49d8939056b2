"""
Test that CMake projects in C++ contain compiled folders, and that their settings decide.

Each program runs two networks and prints the integers of the interpreter.
"""

import json
import platform
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from backends.c.test_machine import needs_cmake, shell
from backends.c.test_prefix import NAMES, SAY, Pair, integers, two_models
from c_harness import needs_arm
from firmware import write_files

from ceras_ir.backends.c import emulator
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import Board, COptions, bare_machine, load_board
from ceras_ir.backends.c.names import Prefix, WeightStorage
from ceras_ir.backends.c.values import filled

pytestmark = [pytest.mark.slow, needs_cmake]

needs_ninja = pytest.mark.skipif(not shutil.which("ninja"), reason="needs ninja")

BUILD_TYPES = ("MinSizeRel", "Release", "Debug")
BOARD = "uno_r4_wifi"

PROJECT = """\
cmake_minimum_required(VERSION 3.13)
@SETTINGS@
project(user CXX)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
@NETWORKS@
add_executable(both user.cpp)
target_link_libraries(both kws::kws vision2::vision2)
"""
SUBDIRECTORIES = "add_subdirectory(kws)\nadd_subdirectory(vision2)\n"
PACKAGES = "find_package(kws CONFIG REQUIRED)\nfind_package(vision2 CONFIG REQUIRED)\n"
BARE = """\
enable_language(C)
# The C++ library is a separate package of arm-none-eabi, which this program does not need.
set_target_properties(both PROPERTIES LINKER_LANGUAGE C)
target_sources(both PRIVATE startup.c)
target_link_options(both PRIVATE -nostartfiles -Wl,--gc-sections -T ${CMAKE_SOURCE_DIR}/board.ld)
"""


@dataclass(frozen=True)
class Project:
    """A project in C++ with a folder per network, in a path with a space."""

    folder: Path
    pair: Pair

    @classmethod
    def written(
        cls,
        folder: Path,
        settings: str = "",
        networks: str = SUBDIRECTORIES,
        board: Board | None = None,
        weights: WeightStorage = "source",
    ) -> "Project":
        place = folder / "my project"
        place.mkdir()
        pair = two_models(place, show="printf" if board is None else "say")
        for source in pair.sources[1:]:
            source.unlink()
        options = COptions(weights=weights)
        text = pair.sources[0].read_text()
        lists = filled(PROJECT, {"SETTINGS": settings, "NETWORKS": networks})
        if board is not None:
            options = replace(options, machine=bare_machine(board), dsp=board.has_dsp)
            emulator.write_startup(board, place)
            text, lists = text.replace("#include <stdio.h>", SAY), lists + BARE
        for number, name in enumerate(NAMES):
            module = integers(number, 8 + 8 * number)
            files = emit(module, replace(options, prefix=Prefix(name)))
            write_files(files, place / name)
        (place / "user.cpp").write_text(text)
        (place / "CMakeLists.txt").write_text(lists)
        return cls(place, pair)

    def build(self, name: str, *settings: str) -> Path:
        build = self.folder / name
        shell("cmake", "-S", self.folder, "-B", build, *settings)
        shell("cmake", "--build", build)
        return build

    def flags(self, build: Path) -> list[str]:
        """Return the command that compiles a network."""
        commands = json.loads((build / "compile_commands.json").read_text())
        return next(c["command"] for c in commands if c["file"].endswith("/kws.c")).split()

    def check(self, program: Path) -> None:
        done = subprocess.run([program], capture_output=True, text=True, check=True)
        self.pair.verdict(done.stdout)


def last(flags: list[str], start: str) -> str:
    """Return the flag of this kind that the compiler obeys."""
    return [flag for flag in flags if flag.startswith(start)][-1]


def code_bytes(library: Path, prefix: str = "") -> int:
    command = [f"{prefix}size", "--totals", str(library)]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return int(lines[-1].split()[0])


def test_a_cpp_application_on_this_machine(tmp_path: Path):
    project = Project.written(tmp_path)
    sizes: dict[str, int] = {}
    for kind in BUILD_TYPES:
        build = project.build(kind, f"-DCMAKE_BUILD_TYPE={kind}")
        project.check(build / "both")
        sizes[kind] = code_bytes(build / "kws/libkws.a")
    assert sizes["MinSizeRel"] < sizes["Release"]


@needs_arm
def test_a_cpp_application_on_a_cortex_m(tmp_path: Path):
    """Flags on the command line do not replace the flags of the processor."""
    board = load_board(BOARD)
    project = Project.written(tmp_path, board=board)
    settings = [
        f"-DCMAKE_TOOLCHAIN_FILE={project.folder / 'kws/toolchain.cmake'}",
        "-DCMAKE_C_FLAGS=-ffunction-sections",
        "-DCMAKE_CXX_FLAGS=-fno-exceptions -ffunction-sections",
    ]
    sizes: dict[str, int] = {}
    for kind in BUILD_TYPES:
        build = project.build(kind, f"-DCMAKE_BUILD_TYPE={kind}", *settings)
        flags = project.flags(build)
        assert "-mcpu=cortex-m4" in flags and "-march=native" not in flags
        project.pair.verdict(emulator.run_elf(build / "both", project.folder))
        sizes[kind] = code_bytes(build / "kws/libkws.a", emulator.ARM_PREFIX)
    assert sizes["MinSizeRel"] < sizes["Release"]


def test_flags_of_the_project_follow_the_defaults(tmp_path: Path):
    project = Project.written(tmp_path)
    command = ["cmake", "-S", project.folder, "-B"]
    shell(*command, project.folder / "a")
    assert last(project.flags(project.folder / "a"), "-O") == "-O3"
    older = "x86-64" if platform.machine() == "x86_64" else "armv8-a"
    given = f"-O1 -march={older} -DMINE=1"
    shell(*command, project.folder / "b", f"-DCMAKE_C_FLAGS={given}")
    flags = project.flags(project.folder / "b")
    assert last(flags, "-O") == "-O1" and last(flags, "-march=") == f"-march={older}"
    assert "-DMINE=1" in flags and flags.index("-ffp-contract=off") > flags.index("-O1")
    shell(*command, project.folder / "c", "-DKWS_NATIVE=OFF", environment={"CFLAGS": "-Og"})
    flags = project.flags(project.folder / "c")
    assert last(flags, "-O") == "-Og" and not any(f.startswith("-march") for f in flags)


def test_warnings_of_the_project_are_errors(tmp_path: Path):
    project = Project.written(tmp_path)
    warnings = "-Wall -Wextra -Wpedantic -Wconversion -Wsign-conversion -Wfloat-equal -Wshadow"
    build = project.folder / "b"
    shell("cmake", "-S", project.folder, "-B", build, f"-DCMAKE_C_FLAGS=-Werror {warnings}")
    for name in NAMES:
        shell("cmake", "--build", build, "--target", name)


@pytest.mark.parametrize(
    "settings",
    ["set(CMAKE_BUILD_TYPE MinSizeRel)", "set(CMAKE_BUILD_TYPE MinSizeRel CACHE STRING mine)"],
)
def test_the_build_type_of_the_parent_decides(tmp_path: Path, settings: str):
    project = Project.written(tmp_path, settings)
    shell("cmake", "-S", project.folder, "-B", project.folder / "b")
    flags = project.flags(project.folder / "b")
    assert [flag for flag in flags if flag.startswith("-O")] == ["-Os"]


@needs_ninja
def test_a_generator_of_several_build_types(tmp_path: Path):
    project = Project.written(tmp_path)
    build = project.folder / "b"
    shell("cmake", "-S", project.folder, "-B", build, "-G", "Ninja Multi-Config")
    for kind in ("Debug", "Release"):
        shell("cmake", "--build", build, "--config", kind)
        project.check(build / kind / "both")
    commands = json.loads((build / "compile_commands.json").read_text())
    flags = [c["command"].split() for c in commands if c["file"].endswith("/kws.c")]
    levels = [[flag for flag in each if flag.startswith("-O")] for each in flags]
    assert levels == [[], ["-O3"], ["-O2"]]


@pytest.mark.parametrize("weights", ["source", "incbin"])
def test_shared_libraries(tmp_path: Path, weights: WeightStorage):
    """The functions of the network are visible, although the project hides all other functions."""
    project = Project.written(tmp_path, weights=weights)
    hidden = "-DCMAKE_C_VISIBILITY_PRESET=hidden"
    build = project.build("b", "-DBUILD_SHARED_LIBS=ON", hidden)
    assert (build / "kws/libkws.so").is_file()
    project.check(build / "both")


@pytest.mark.sample(2)
@pytest.mark.parametrize("settings", [(), ("-DBUILD_SHARED_LIBS=ON",), ("-DKWS_THREADS=ON",)])
def test_installed_packages(tmp_path: Path, settings: tuple[str, ...]):
    """The project, in C++ only, finds them in the folder that the user chose for libraries."""
    project = Project.written(tmp_path, networks=PACKAGES)
    prefix = tmp_path / "pre fix"
    place = ("-DCMAKE_INSTALL_LIBDIR=libraries", f"-DCMAKE_INSTALL_PREFIX={prefix}")
    for name in NAMES:
        build = project.folder / f"build {name}"
        shell("cmake", "-S", project.folder / name, "-B", build, *settings, *place)
        shell("cmake", "--build", build, "--target", "install")
    found = [f"-D{name}_DIR={prefix}/libraries/cmake/{name}" for name in NAMES]
    project.check(project.build("b", *found) / "both")


def test_threads_in_a_subdirectory(tmp_path: Path):
    project = Project.written(tmp_path)
    build = project.build("b", "-DKWS_THREADS=ON", "-DVISION2_THREADS=ON")
    assert "-fopenmp" in project.flags(build)
    project.check(build / "both")


@needs_arm
def test_a_cross_build_without_a_board(tmp_path: Path):
    """The toolchain of the project names the processor."""
    project = Project.written(tmp_path)
    toolchain = tmp_path / "mine.cmake"
    toolchain.write_text(
        "set(CMAKE_SYSTEM_NAME Generic)\nset(CMAKE_C_COMPILER arm-none-eabi-gcc)\n"
        "set(CMAKE_CXX_COMPILER arm-none-eabi-g++)\n"
        'set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m33 -mthumb")\n'
        "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n"
    )
    build, setting = project.folder / "b", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"
    shell("cmake", "-S", project.folder, "-B", build, setting)
    shell("cmake", "--build", build, "--target", "kws")
    flags = project.flags(build)
    assert last(flags, "-mcpu=") == "-mcpu=cortex-m33"
    assert not any(flag.startswith("-march") for flag in flags)
