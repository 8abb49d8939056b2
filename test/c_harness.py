"""Run networks of a few operations in C under the sanitizers and in the interpreter."""

import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import pytest
from cross import AARCH64, RISCV, Cross
from firmware import write_files
from numpy.typing import NDArray
from xdsl.builder import ImplicitBuilder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ceras_ir.backends.c import emulator
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.runner import CModel, Launch
from ceras_ir.dialects.graph import ConstantOp, numpy_dtype, shape_of, tensor_type
from ceras_ir.interpreters import network
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.targets.capabilities import Trace
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

Array = NDArray[np.generic]

needs_arm = pytest.mark.skipif(
    not emulator.available(), reason="needs arm-none-eabi-g++ and qemu-system-arm"
)
needs_aarch64 = pytest.mark.skipif(
    not AARCH64.is_available, reason="needs aarch64-linux-gnu-gcc and qemu-aarch64"
)

needs_rv32 = pytest.mark.skipif(
    not all(map(shutil.which, ("riscv64-unknown-elf-gcc", "qemu-riscv32"))),
    reason="needs riscv64-unknown-elf-gcc and qemu-riscv32",
)
needs_xtensa = pytest.mark.skipif(
    not all(map(shutil.which, ("xtensa-lx106-elf-gcc", "qemu-system-xtensa"))),
    reason="needs xtensa-lx106-elf-gcc and qemu-system-xtensa",
)
needs_espressif = pytest.mark.skipif(
    not shutil.which("xtensa-esp32s3-elf-g++"),
    reason="needs Espressif's xtensa-esp32s3-elf-g++, which no package brings",
)
needs_rvv = pytest.mark.skipif(not RISCV.is_available, reason="needs clang-19 and qemu-riscv64")

SANITIZE = (
    "-O1",
    "-fsanitize=undefined",
    "-fsanitize-undefined-trap-on-error",
)


def constant(array: Array, element: Attribute = f32) -> SSAValue:
    """Return the result of a constant operation."""
    return ConstantOp.from_array(array, element).result


Inputs = Sequence[tuple[Attribute, tuple[int, ...]]]
Values = Sequence[SSAValue]


@overload
def make_network(inputs: Inputs, build: Callable[[], Values]) -> ModuleOp: ...
@overload
def make_network(inputs: Inputs, build: Callable[[SSAValue], Values]) -> ModuleOp: ...
@overload
def make_network(inputs: Inputs, build: Callable[[SSAValue, SSAValue], Values]) -> ModuleOp: ...
@overload
def make_network(inputs: Inputs, build: Callable[..., Values]) -> ModuleOp: ...
def make_network(inputs: Inputs, build: Callable[..., Values]) -> ModuleOp:
    """Return `@main` on arguments of these types and shapes; `build` creates the results."""
    block = Block(arg_types=[TensorType(element, shape) for element, shape in inputs])
    with ImplicitBuilder(block):
        results = build(*block.args)
        ReturnOp(*results)
    kind = ([a.type for a in block.args], [r.type for r in results])
    return ModuleOp([FuncOp("main", kind, Region(block))])


def place(module: ModuleOp, *, io: bool = False) -> ModuleOp:
    """Assign blocks to all values, as target c does."""
    module.verify()
    AllocateBlocksPass(io=io, in_slices=True).apply(Context(), module)
    return module


def compiled(
    module: ModuleOp,
    *,
    options: COptions | None = None,
    flags: Sequence[str] = SANITIZE,
    trace: Trace | None = None,
    launch: Launch | None = None,
) -> CModel:
    """Return the placed network, compiled with warnings as errors."""
    main = network.main_function(module)
    options = options or COptions()
    files = emit(module, options)
    return CModel(
        files,
        network_inputs(main),
        network_outputs(main),
        trace=trace,
        launch=launch,
        flags=flags,
        prefix=options.prefix,
    )


def random_inputs(module: ModuleOp, seed: int = 0) -> dict[str, Array]:
    """Return arrays over the full range of integers, extremes included; normal floats."""
    rng = np.random.default_rng(seed)
    result: dict[str, Array] = {}
    main = network.main_function(module)
    for name, value in zip(network.input_names(main), main.body.block.args, strict=True):
        dtype = numpy_dtype(tensor_type(value).element_type)
        if dtype == np.float32:
            result[name] = rng.normal(size=shape_of(value)).astype(np.float32)
        else:
            info = np.iinfo(dtype.name)
            draw = np.uint64 if dtype == np.uint64 else np.int64
            drawn = rng.integers(info.min, info.max, shape_of(value), draw, endpoint=True)
            result[name] = drawn.astype(dtype)
    return result


def check(
    module: ModuleOp,
    inputs: Mapping[str, Array] | None = None,
    *,
    tolerance: float = 0.0,
    options: COptions | None = None,
    flags: Sequence[str] = SANITIZE,
) -> dict[str, Array]:
    """Compare C with the interpreter; integers exactly, independent of the tolerance."""
    place(module)
    inputs = random_inputs(module) if inputs is None else inputs
    expected = network.run(module, inputs)
    got = compiled(module, options=options, flags=flags).run(inputs)
    for name, array in expected.items():
        if array.dtype == np.float32 and tolerance:
            real = np.asarray(array, np.float32)
            np.testing.assert_allclose(
                np.asarray(got[name], np.float32), real, rtol=tolerance, atol=tolerance
            )
        else:
            np.testing.assert_array_equal(got[name], array, err_msg=name)
            _assert_zeros_equal(got[name], array, name)
    return got


def _assert_zeros_equal(actual: Array, expected: Array, name: str) -> None:
    """Compare the signs of all values except NaN, because 0.0 and -0.0 compare equal."""
    if expected.dtype == np.float32:
        number = ~np.isnan(expected)
        signs = [np.signbit(a[number]) for a in (actual, expected)]
        np.testing.assert_array_equal(*signs, err_msg=f"signs of {name}")


def check_elsewhere(
    module: ModuleOp,
    machine: Cross,
    build: Sequence[str],
    folder: Path,
    *,
    tolerance: float,
    options: COptions | None = None,
) -> None:
    """Compare float C on another processor with the interpreter."""
    main = main_function(place(module))
    ends = network_inputs(main), network_outputs(main)
    write_files(emit(module, options or COptions()), folder)
    program = machine.build(folder, folder / "main.c", (*build, "-O1"))
    inputs = random_inputs(module)
    got = machine.run(program, inputs, *ends)
    for name, array in network.run(module, inputs).items():
        real = (np.asarray(a, np.float32) for a in (got[name], array))
        np.testing.assert_allclose(*real, rtol=tolerance, atol=tolerance, err_msg=name)
