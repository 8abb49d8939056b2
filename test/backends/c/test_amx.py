"""
Test products in the tiles of AMX against the interpreter: on processors that have them, and in an
emulation that checks shapes and addresses. All layers that can use AMX do, faster or not.
"""

import os
import subprocess
from pathlib import Path

import numpy as np
import pytest
from backends.c.test_tiles import GROUPED, OUT, SHAPES, SKIP, layer
from c_harness import SANITIZE, check, constant, make_network, place, random_inputs
from c_tiles import QUICK, source, stored
from firmware import write_files
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, i8
from xdsl.ir import SSAValue

from ceras_ir.backends.c import amx_tiles
from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.runner import compiler
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters import network

FOLDER = Path(__file__).parents[2]
FACTS = Path("/proc/cpuinfo")
HAS_AMX = FACTS.exists() and " amx_int8" in FACTS.read_text("ascii", "replace")
HAS_VECTORS = FACTS.exists() and " avx512_vnni" in FACTS.read_text("ascii", "replace")

needs_amx = pytest.mark.skipif(not HAS_AMX, reason="needs a processor with AMX")
needs_vectors = pytest.mark.skipif(not HAS_VECTORS, reason="needs a processor with AVX-512 VNNI")

EMULATED = (*QUICK, "-march=native", "-include", str(FOLDER / "amx.h"))
BUILDS = {
    "amx": pytest.param((*QUICK, "-march=native"), marks=needs_amx),
    "emulated": pytest.param(EMULATED, marks=needs_vectors),
}
BUILDS_OF_WORDS = {
    **BUILDS,
    # Vectors that share the weights of the tiles.
    "refused": pytest.param((*EMULATED, "-DMODEL_REQUEST_AMX()=0"), marks=needs_vectors),
    "vectors": (*QUICK, "-march=native", "-DMODEL_AMX=0"),
}
Shape = tuple[
    tuple[int, ...], int, tuple[int, int], tuple[int, int], tuple[int, int, int, int],
    tuple[int, int], int,
]  # fmt: skip
"""Input, outputs, kernel, strides, padding, dilations, groups."""

u8 = IntegerType(8, Signedness.UNSIGNED)
i16 = IntegerType(16)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Choose AMX for all layers that it supports."""
    monkeypatch.setattr(amx_tiles, "MAX_SHARE", float("inf"))


def uses_amx(module: ModuleOp) -> int:
    """Return the number of layers that use AMX."""
    return source(module).count("#if MODEL_AMX")


@pytest.mark.slow
@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS.keys())
@pytest.mark.parametrize(("storage", "workspace"), [(i8, 0), (u8, 1 << 17)])
def test_convolutions(flags: tuple[str, ...], storage: IntegerType, workspace: int):
    """Strips of one tile and of the entire map; outputs with and without residual and factors."""
    element = UniformType(1.0, 3, storage=storage)
    shapes = [(*shape[:5], (shape[5], 1), 1) for shape in SHAPES] + GROUPED

    def build(*inputs: SSAValue) -> list[SSAValue]:
        return [
            layer(i, x, element, *shape[1:])
            for i, (x, shape) in enumerate(zip(inputs, shapes, strict=True))
        ]

    module = make_network([(element, shape[0]) for shape in shapes], build)
    assert uses_amx(module) > len(shapes) // 2
    check(module, flags=flags, options=COptions(workspace=workspace))


@pytest.mark.slow
@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS.keys())
@pytest.mark.parametrize("seed", range(6))
def test_random_layers(flags: tuple[str, ...], seed: int):
    """Channels from 1 to 300, strides, padding and dilation, of bytes or with 16-bit results."""
    rng = np.random.default_rng(seed)
    pick = rng.integers
    element = UniformType(1.0, int(pick(-3, 4)) + 3, storage=[i8, u8][seed % 2])
    wide = UniformType(1.0, storage=i16)
    shapes: list[tuple[tuple[int, ...], int, tuple[int, int], tuple[int, int]]] = []
    for _ in range(4):
        kernel = (1, 1) if pick(2) else (int(pick(1, 4)), int(pick(1, 4)))
        shape = int(pick(1, 3)), *(int(pick(7, 20)) for _ in "hw"), int(pick(1, 301))
        strides = int(pick(1, 3)), int(pick(1, 3))
        shapes.append((shape, int(pick(1, 301)), kernel, strides))

    def build(*inputs: SSAValue) -> list[SSAValue]:
        results: list[SSAValue] = []
        for i, (x, (_, outputs, kernel, strides)) in enumerate(zip(inputs, shapes, strict=True)):
            top, left = (int(pick(0, k)) for k in kernel)
            dilations = int(pick(1, 3)), int(pick(1, 3))
            result = wide if i == 3 else OUT
            results.append(
                layer(
                    seed + i, x, element, outputs, kernel, strides, (top, left, left, top),
                    dilations, 1, result,
                )
            )  # fmt: skip
        return results

    module = make_network([(element, shape[0]) for shape in shapes], build)
    assert uses_amx(module)
    check(module, flags=flags)


@pytest.mark.slow
@pytest.mark.parametrize("flags", BUILDS_OF_WORDS.values(), ids=BUILDS_OF_WORDS.keys())
@pytest.mark.parametrize("point", [0, -3000])
def test_inputs_of_16_bits(flags: tuple[str, ...], point: int):
    """Half of the inputs are extremes; strips of one tile, and larger strips."""
    element = UniformType(1.0, point, storage=i16)
    wide, skip = UniformType(1.0, storage=i16), UniformType(2.0, 100, storage=i16)
    shapes = [(*shape[:5], (shape[5], 1), 1) for shape in SHAPES] + GROUPED
    shapes += [
        ((1, 15, 15, 68), 128, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
        ((2, 14, 14, 132), 96, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
        ((1, 12, 12, 192), 80, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    ]

    ends = (OUT, SKIP), (wide, skip)

    def build(*inputs: SSAValue) -> list[SSAValue]:
        return [
            layer((i, 4 + 10 * i, 6 * i)[i % 3], x, element, *shape[1:], *ends[i % 2])
            for i, (x, shape) in enumerate(zip(inputs, shapes, strict=True))
        ]

    module = make_network([(element, shape[0]) for shape in shapes], build)
    assert uses_amx(module) > len(shapes) // 2
    rng = np.random.default_rng(point + 5000)
    numbers = {f"input{i}": stored(rng, element, shape[0]) for i, shape in enumerate(shapes)}
    for x in numbers.values():
        extremes = rng.choice(np.array([-32768, 32767], np.int16), x.shape)
        x[:] = np.where(rng.random(x.shape) < 0.5, extremes, x)
    check(module, numbers, flags=flags, options=COptions(workspace=0 if point else 1 << 17))


@pytest.mark.parametrize("flags", BUILDS_OF_WORDS.values(), ids=BUILDS_OF_WORDS.keys())
def test_largest_sums_of_16_bits(flags: tuple[str, ...]):
    """256 times the sum of the high bytes of an input is close to the range of 32 bits."""
    element, wide = UniformType(1.0, storage=i16), UniformType(1.0, storage=i16)
    weights = np.full((32, 508), 127, np.int8)
    weights[1::2] = -128
    weights[2::4, ::2] = 1
    requant = RequantAttr(18, low=-32768, high=32767)
    x = np.full((24, 508), -32768, np.int16)
    x[1::2] = 32767
    x[2::3, ::3] = -1
    x[3::4, 1::3] = 255

    def build(value: SSAValue) -> list[SSAValue]:
        known = constant(weights, UniformType(1.0))
        op = graph.MatmulOp(value, known, result_element=wide, requant=requant)
        return [op.result]

    module = make_network([(element, x.shape)], build)
    assert uses_amx(module)
    check(module, {"input0": x}, flags=flags)


@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS.keys())
@pytest.mark.parametrize("storage", [i8, u8])
@pytest.mark.parametrize("workspace", [0, 1 << 17])
def test_pixels_at_a_distance(flags: tuple[str, ...], storage: IntegerType, workspace: int):
    """Pixels of several images and with 16-bit results; in strips, and all together."""
    element, wide = UniformType(1.0, 3, storage=storage), UniformType(1.0, storage=i16)
    shapes = [
        ((2, 14, 14, 132), 96, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
        ((1, 13, 20, 64), 72, (1, 1), (2, 3), (0, 0, 0, 0), (1, 1), 1),
    ]

    def build(*inputs: SSAValue) -> list[SSAValue]:
        return [
            layer(seed, x, element, *shape[1:], result)
            for x, shape in zip(inputs, shapes, strict=True)
            for seed, result in ((0, OUT), (3, wide))
        ]

    module = make_network([(element, shape[0]) for shape in shapes], build)
    options = COptions(workspace=workspace)
    assert source(module).count("pixels_") >= len(shapes)
    check(module, flags=flags, options=options)


@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS.keys())
@pytest.mark.parametrize("storage", [i8, u8])
def test_small_maps(flags: tuple[str, ...], storage: IntegerType):
    """All positions of a small map form lines, in which some are not stored."""
    element = UniformType(1.0, 3, storage=storage)
    shapes = [
        ((1, 7, 7, 64), 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
        ((2, 5, 6, 20), 48, (2, 3), (1, 1), (1, 1, 0, 1), (1, 1), 1),
        ((1, 6, 6, 12), 9, (3, 3), (1, 1), (2, 2, 2, 2), (2, 2), 1),
        ((1, 5, 9, 40), 64, (3, 2), (1, 1), (1, 0, 1, 1), (1, 1), 2),
    ]
    wide = UniformType(1.0, storage=i16)

    def build(*inputs: SSAValue) -> list[SSAValue]:
        return [
            layer(seed + i, x, element, *shape[1:], result)
            for i, (x, shape) in enumerate(zip(inputs, shapes, strict=True))
            for seed, result in ((0, OUT), (3, wide))
        ]

    module = make_network([(element, shape[0]) for shape in shapes], build)
    kernels = source(module, "model_kernels.h")
    assert all(f"{size}_of_" in kernels for size in ("_7x7", "_5x6", "_6x6", "_5x9"))
    check(module, flags=flags)


@needs_vectors
@pytest.mark.slow
@pytest.mark.parametrize(
    ("storage", "shape"),
    [
        (i8, ((1, 7, 7, 64), 64, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1)),
        (i16, ((1, 9, 7, 36), 48, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1)),
        (i16, ((1, 9, 9, 68), 64, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1)),
    ],
)
def test_tiles_load_only_the_workspace(storage: IntegerType, shape: Shape):
    element = UniformType(1.0, 3, storage=storage)
    module = make_network([(element, shape[0])], lambda x: [layer(0, x, element, *shape[1:])])
    assert uses_amx(module)
    check(module, flags=(*SANITIZE, *EMULATED[len(QUICK) :]))


def product(rows: int, k: int, outputs: int, storage: IntegerType) -> ModuleOp:
    """Return a network with the product of two inputs."""
    element, weights = UniformType(1.0, 2, storage=storage), UniformType(1.0)
    requant = RequantAttr(int(np.log2(np.sqrt(k) * 60)) + 7)

    def build(x: SSAValue, w: SSAValue) -> list[SSAValue]:
        op = graph.MatmulOp(x, w, result_element=UniformType(1.0), requant=requant)
        return [op.result]

    return make_network([(element, (rows, k)), (weights, (outputs, k))], build)


@pytest.mark.slow
@pytest.mark.parametrize("flags", BUILDS.values(), ids=BUILDS.keys())
@pytest.mark.parametrize("storage", [i8, u8])
@pytest.mark.parametrize(
    "shape",
    [(49, 64, 49), (197, 64, 64), (33, 196, 128), (40, 64, 144), (64, 200, 48), (17, 68, 33)],
)
def test_products_of_activations(
    flags: tuple[str, ...], storage: IntegerType, shape: tuple[int, int, int]
):
    module = product(*shape, storage)
    assert uses_amx(module)
    check(module, flags=flags)


def wide_layer() -> ModuleOp:
    element = UniformType(1.0, 3)
    return make_network(
        [(element, (1, 28, 28, 64))],
        lambda x: [layer(2, x, element, 96, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1)],
    )


class Program:
    """The program `main.c` of a network, its input, and the output of the interpreter."""

    def __init__(self, module: ModuleOp, folder: Path):
        self.folder = folder
        write_files(emit(place(module)), folder)
        inputs = random_inputs(module)
        (folder / "in.bin").write_bytes(b"".join(array.tobytes() for array in inputs.values()))
        outputs = network.run(module, inputs).values()
        self.expected = b"".join(array.tobytes() for array in outputs)

    def build(self, *flags: str) -> None:
        command = [*compiler(), "-std=c99", "-O1", "-march=native", *flags]
        command += ["model.c", "model_weights.c", "main.c", "-o", "program"]
        subprocess.run(command, cwd=self.folder, check=True)

    def status(self, **environment: str) -> int:
        """Run the program, compare the output, and return the exit status."""
        command = ["./program", "in.bin", "out.bin"]
        done = subprocess.run(command, cwd=self.folder, env={**os.environ, **environment})
        assert (self.folder / "out.bin").read_bytes() == self.expected
        return done.returncode


@needs_amx
def test_each_thread_configures_tiles(tmp_path: Path):
    module = wide_layer()
    assert "MODEL_TEAM" in source(module)
    program = Program(module, tmp_path)
    program.build("-fopenmp")
    for threads in ("1", "2", "3", "7"):
        assert program.status(OMP_NUM_THREADS=threads) == 0


@needs_amx
def test_without_permission_vectors_compute(tmp_path: Path):
    """The program fails at its end if it has tiles: see `amx_refused.h`."""
    program = Program(wide_layer(), tmp_path)
    refused = ("-D_GNU_SOURCE", "-include", str(FOLDER / "amx_refused.h"))
    program.build(*refused)
    assert program.status() == 0
    # A stack that can hold tiles does not refuse them, which the check at the end must report.
    program.build(*refused, "-DSTACK_BYTES=65536")
    assert program.status() == 78


def test_layers_that_are_faster_in_vectors(monkeypatch: pytest.MonkeyPatch):
    """Few products per sum, or a single position, do not use AMX; wide 3x3 layers do."""
    monkeypatch.undo()
    element = UniformType(1.0)

    def count(shape: tuple[int, ...], outputs: int, kernel: int) -> int:
        half = kernel // 2
        padding = half, half, half, half
        return uses_amx(
            make_network(
                [(element, shape)],
                lambda x: [
                    layer(0, x, element, outputs, (kernel, kernel), (1, 1), padding, (1, 1), 1)
                ],
            )
        )

    assert not count((1, 1, 1, 512), 1000, 1)
    assert not count((1, 56, 56, 16), 96, 1)
    assert count((1, 14, 14, 256), 256, 3) == 1
