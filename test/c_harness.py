"""Run networks of a few operations in C under the sanitizers and in the interpreter."""

import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import overload

import numpy as np
import pytest
from cross import AARCH64, RISCV, Cross
from firmware import write_files
from numpy.typing import NDArray
from red_zones import apart, emit_apart
from xdsl.builder import ImplicitBuilder
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from ceras_ir.backends.c import emulator
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.runner import SOURCE_SUFFIXES, CModel, Launch, compiler
from ceras_ir.dialects.graph import ConstantOp, numpy_dtype, shape_of, tensor_type
from ceras_ir.interpreters import network
from ceras_ir.network.artefacts import TensorInfo, network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.support.files import ContentCache, key_of
from ceras_ir.support.native import cache_folder
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
    """
    Compare C with the interpreter; integers exactly, independent of the tolerance.

    Unless `flags` leave out the sanitizer of undefined behaviour, an access out of the range of a
    value, a constant or an array of the workspace is an error too.
    """
    place(module)
    inputs = random_inputs(module) if inputs is None else inputs
    expected = network.run(module, inputs)
    if SANITIZE[1] in flags:
        got = run_apart(module, inputs, options=options, flags=flags)
    else:
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


STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off")
PROGRAMS = 256 << 20
"""The limit of the cache of programs in bytes."""


def run_apart(
    module: ModuleOp,
    inputs: Mapping[str, Array],
    *,
    options: COptions | None = None,
    flags: Sequence[str] = SANITIZE,
) -> dict[str, Array]:
    """
    Run a network in C under the address sanitizer, with inaccessible bytes between all values, and
    fail if the sanitizer reports an error. `module` is not changed.
    """
    with apart():
        module = place(module.clone())
        files = emit_apart(module, options)
    with tempfile.TemporaryDirectory(prefix="ceras-apart-") as name:
        folder = Path(name)
        write_files(files, folder)
        # Without optimization, no access is removed, and compilation is the fastest.
        flags = [flag for flag in flags if not flag.startswith("-O")]
        program = _program(folder, (*STRICT, "-O0", *flags, "-fsanitize=address"))
        ends = network_inputs(main_function(module)), network_outputs(main_function(module))
        is_loaded = options is not None and options.weights == "file"
        weights = folder.glob("*.weights") if is_loaded else ()
        return run_on_raw_tensors([program], folder, inputs, *ends, weights)


def _program(folder: Path, flags: Sequence[str]) -> Path:
    """Compile the files of `emit_apart` in a folder, or copy the program from the cache."""
    program = folder / "program"
    sources = sorted(path for path in folder.iterdir() if path.suffix in SOURCE_SUFFIXES)
    compiled_files = [str(path) for path in sources if path.suffix == ".c" if path.stem != "bench"]
    # The second folder is for constants that the assembler includes.
    folders = [f"-I{folder}", f"-Wa,-I,{folder}"]
    command = [*compiler(), *flags, *folders, *compiled_files, "-o", str(program), "-lm"]

    def make() -> bytes:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-2000:]
        return program.read_bytes()

    texts = [part for path in sources for part in (path.name, path.read_bytes())]
    cache = ContentCache(cache_folder() / "sanitized", PROGRAMS)
    program.write_bytes(cache.computed(key_of(*compiler(), *flags, "", *texts), make))
    program.chmod(0o700)
    return program


def run_on_raw_tensors(
    command: Sequence[str | Path],
    folder: Path,
    inputs: Mapping[str, Array],
    given: Sequence[TensorInfo],
    returned: Sequence[TensorInfo],
    weights: Iterable[Path] = (),
) -> dict[str, Array]:
    """
    Run a program of `main.c` on inputs, and return the outputs by name. `weights` are the files of
    weights that it loads.
    """
    data = b"".join(np.asarray(inputs[info.name], info.dtype).tobytes() for info in given)
    (folder / "in.bin").write_bytes(data)
    files = folder / "in.bin", folder / "out.bin"
    done = subprocess.run([*command, *files, *weights], capture_output=True, text=True, check=False)
    assert done.returncode == 0, (done.returncode, done.stderr[:3000])
    data, at, results = files[1].read_bytes(), 0, dict[str, Array]()
    for info in returned:
        results[info.name] = np.frombuffer(data, info.dtype, info.size, at).reshape(info.shape)
        at += info.nbytes
    assert at == len(data)
    return results


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
