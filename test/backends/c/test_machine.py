"""Test build files for this machine and for other machines with make, cmake and cross compilers."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import firmware
import numpy as np
import pytest
from backends.c.test_files import small_network
from c_harness import Array, needs_aarch64, needs_arm, needs_rvv, place, random_inputs
from cross import AARCH64, RISCV, Cross, riscv
from firmware import write_files

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import (
    Board,
    COptions,
    Machine,
    bare_machine,
    load_machine,
    machine_names,
)
from ceras_ir.backends.c.target import CTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions
from ceras_ir.support.diagnostics import InputError, UsageError

pytestmark = pytest.mark.slow

DIGITS = Path(__file__).parents[3] / "examples/digits"

needs_riscv = pytest.mark.skipif(
    not all(map(shutil.which, ("riscv64-linux-gnu-gcc", "qemu-riscv64"))),
    reason="needs riscv64-linux-gnu-gcc and qemu-riscv64",
)
needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="needs cmake")


def agree(got: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    """Compare integers exactly, and the softmax of a float product within the last digits."""
    for name, array in expected.items():
        if array.dtype == np.float32:
            np.testing.assert_allclose(got[name].astype(np.float32), array.astype(np.float32), 1e-4)
        else:
            np.testing.assert_array_equal(got[name], array)


def computer(name: str) -> Machine:
    machine = load_machine(name)
    assert isinstance(machine, Machine)
    return machine


def shell(*command: str | Path, environment: dict[str, str] | None = None) -> None:
    kept = {k: v for k, v in os.environ.items() if k not in ("CC", "CFLAGS", "MAKEFLAGS")}
    done = subprocess.run(
        command, env={**kept, **(environment or {})}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("board", "cross", "compiler"),
    [
        pytest.param("raspberry_pi_5", AARCH64, "", marks=needs_aarch64),
        pytest.param("visionfive_2", RISCV, "", marks=needs_riscv),
        pytest.param("bpi_f3", riscv(256), "", marks=needs_riscv),
        pytest.param("bpi_f3", riscv(256), " ".join(RISCV.compiler), marks=needs_rvv),
    ],
)
def test_make_for_a_board(tmp_path: Path, board: str, cross: Cross, compiler: str):
    """Kernels of the processor or portable loops give the integers of all other machines."""
    module = place(small_network())
    main = main_function(module)
    write_files(emit(module, COptions(machine=computer(board))), tmp_path)
    shell("make", "-C", tmp_path, "LDFLAGS=-static", *([f"CC={compiler}"] if compiler else []))
    sample = random_inputs(module)
    ends = network_inputs(main), network_outputs(main)
    got = cross.run(tmp_path / "model_run", sample, *ends)
    agree(got, run(module, sample))
    assert (tmp_path / "model_bench").is_file()


@needs_cmake
@pytest.mark.parametrize("board", [None, pytest.param("raspberry_pi_5", marks=needs_aarch64)])
def test_cmake_builds_what_make_builds(tmp_path: Path, board: str | None):
    """Build as in a project of a user: `add_subdirectory`, then link with the library."""
    options = COptions() if board is None else COptions(machine=computer(board))
    module = place(small_network())
    main = main_function(module)
    ends = network_inputs(main), network_outputs(main)
    write_files(emit(module, options), tmp_path / "net")
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(user C)\nadd_subdirectory(net)\n"
        "add_executable(mine net/main.c)\ntarget_link_libraries(mine model)\n"
    )
    compiler = "-DCMAKE_C_COMPILER=aarch64-linux-gnu-gcc"
    cross = [compiler, "-DCMAKE_EXE_LINKER_FLAGS=-static"] if board else []
    build = tmp_path / "build"
    shell("cmake", "-S", tmp_path, "-B", build, *cross)
    shell("cmake", "--build", build)
    assert (build / "net/model_bench").is_file()
    sample = random_inputs(module)
    if board:
        got = AARCH64.run(build / "mine", sample, *ends)
        dump = ("aarch64-linux-gnu-objdump", "-d", str(build / "mine"))
        assert "\tsdot\t" in subprocess.run(dump, capture_output=True, text=True, check=True).stdout
    else:
        (tmp_path / "in.bin").write_bytes(b"".join(sample[t.name].tobytes() for t in ends[0]))
        shell(build / "mine", tmp_path / "in.bin", tmp_path / "out.bin")
        data, at, got = (tmp_path / "out.bin").read_bytes(), 0, dict[str, Array]()
        for info in ends[1]:
            array = np.frombuffer(data, info.dtype, info.size, at)
            got[info.name], at = array.reshape(info.shape), at + info.nbytes
    agree(got, run(module, sample))


@pytest.mark.slow
@needs_cmake
def test_cmake_installs_a_package(tmp_path: Path):
    """A project finds the package by `find_package` and equals the interpreter."""
    module = place(small_network())
    main = main_function(module)
    write_files(emit(module), tmp_path / "net")
    shell("cmake", "-S", tmp_path / "net", "-B", tmp_path / "built")
    shell("cmake", "--build", tmp_path / "built")
    shell("cmake", "--install", tmp_path / "built", "--prefix", tmp_path / "prefix")
    user = tmp_path / "user"
    user.mkdir()
    shutil.copyfile(tmp_path / "net/main.c", user / "main.c")
    (user / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.10)\nproject(user C)\n"
        "find_package(model CONFIG REQUIRED)\n"
        "add_executable(mine main.c)\ntarget_link_libraries(mine model::model)\n"
    )
    shell("cmake", "-S", user, "-B", user / "b", f"-DCMAKE_PREFIX_PATH={tmp_path / 'prefix'}")
    shell("cmake", "--build", user / "b")
    sample = random_inputs(module)
    inputs, outputs = network_inputs(main), network_outputs(main)
    (tmp_path / "in.bin").write_bytes(b"".join(sample[t.name].tobytes() for t in inputs))
    shell(user / "b/mine", tmp_path / "in.bin", tmp_path / "out.bin")
    got = np.frombuffer((tmp_path / "out.bin").read_bytes(), outputs[0].dtype, outputs[0].size)
    first = {outputs[0].name: got.reshape(outputs[0].shape)}
    agree(first, {outputs[0].name: run(module, sample)[outputs[0].name]})


@pytest.mark.slow
@needs_cmake
@needs_arm
@pytest.mark.parametrize("board", [None, "uno_r4_wifi"])
def test_cmake_builds_for_an_arm_core(tmp_path: Path, board: str | None):
    """The build uses the toolchain of the user, or the toolchain in the folder of a board."""
    options = COptions()
    if board is not None:
        found = load_machine(board)
        assert isinstance(found, Board)
        options = replace(options, machine=bare_machine(found))
    write_files(emit(place(small_network()), options), tmp_path / "net")
    toolchain = tmp_path / "net/toolchain.cmake"
    assert toolchain.exists() == (board is not None)
    if board is None:
        toolchain = tmp_path / "mine.cmake"
        toolchain.write_text(
            "set(CMAKE_SYSTEM_NAME Generic)\nset(CMAKE_C_COMPILER arm-none-eabi-gcc)\n"
            'set(CMAKE_C_FLAGS_INIT "-mcpu=cortex-m4 -mthumb")\n'
            "set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)\n"
        )
    build = tmp_path / "build"
    shell("cmake", "-S", tmp_path / "net", "-B", build, f"-DCMAKE_TOOLCHAIN_FILE={toolchain}")
    shell("cmake", "--build", build)
    shell("arm-none-eabi-objdump", "-a", build / "libmodel.a")


def test_descriptions_are_checked(tmp_path: Path):
    assert {"raspberry_pi_4", "raspberry_pi_5"} <= set(machine_names())
    path = tmp_path / "mine.toml"
    good = 'title = "mine"\ncompiler = "gcc"\nflags = []\n'
    path.write_text(good)
    assert computer(str(path)).compiler == "gcc"
    path.write_text(good + "# It has no fqbn.\n")
    assert computer(str(path)).compiler == "gcc"
    for text, message in (
        (good + "flagz = 1\n", "no field 'flagz'"),
        (good.replace('compiler = "gcc"\n', ""), "no field 'compiler'"),
        (good.replace("[]", '"-O2"'), "flags must be a list of texts, got '-O2'"),
        ("title = ", "not TOML"),
        ("title = " + "[" * 5000, "unsupported TOML"),
        ("title = " + "9" * 5000, "not TOML"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=message):
            load_machine(str(path))
    with pytest.raises(InputError, match=r"has no board 'uno'.* .boards: .*bpi_f3"):
        load_machine("uno")
    assert isinstance(load_machine("uno_r4_wifi"), Board)


@needs_arm
def test_make_for_a_microcontroller(tmp_path: Path):
    """
    The objects have kernels of the core and fit the memories. A program, which needs a linker
    script of the user, is linked only on request, for the console of a debugger.
    """
    model, data = str(DIGITS / "digits.onnx"), str(DIGITS / "digits_calibration.npz")
    options = BuildOptions(
        CTarget(board="uno_r4_wifi"), quantize="int8", calibration=data, recipe=("none",)
    )
    result = build(read_network(model), options)
    write_artefacts(tmp_path, result.files())
    assert "dsp_" in (tmp_path / "model.c").read_text()
    shell("make", "-C", tmp_path)
    built = {path.name for path in tmp_path.iterdir()}
    assert {"model.o", "model_weights.o"} <= built and "model_run" not in built
    shell("make", "-C", tmp_path, "model_run", "model_bench")
    assert firmware.sizes(tmp_path / "model_run").flash > 0
    shell("make", "-C", tmp_path, "clean")
    assert not [*tmp_path.glob("*.o"), *tmp_path.glob("model_run")]
    with pytest.raises(UsageError, match="--weights file is for computers"):
        replace(options, target=CTarget(board="uno_r4_wifi", weights="file")).check()
