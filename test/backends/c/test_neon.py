"""Test kernels of 64-bit Arm against the interpreter: each variant, run under qemu."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from backends.c.test_float_blocks import CONVOLUTIONS, PRODUCTS, ROUNDING, convolution, products
from backends.c.test_tiles import DEPTHWISE, SHAPES, layer
from c_harness import Array, Values, constant, make_network, needs_aarch64, place, random_inputs
from c_tiles import TIES, tied_layers
from cross import AARCH64, Cross
from firmware import write_files
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness, f32
from xdsl.ir import SSAValue

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.backends.c.values import filled
from ceras_ir.dialects import graph
from ceras_ir.dialects.graph import Function, FunctionAttr
from ceras_ir.dialects.quant import RequantAttr, UniformType
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import TensorInfo, network_inputs, network_outputs
from ceras_ir.network.function import main_function

pytestmark = pytest.mark.slow

INSTRUCTIONS = {"neon": "smull", "dotprod": "sdot", "i8mm": "smmla"}

GUARDED = """\
/* Runs the model on arrays after which, or before which, a page cannot be accessed. */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "model.h"
enum { PAGE = 1 << 16, COUNT = @COUNT@, INPUTS = @INPUTS@ };
static const size_t sizes[COUNT] = {@SIZES@};
static unsigned char *arrays[COUNT];
int main(int argc, char **argv)
{
  FILE *file;
  if (argc < 3) return 1;
  for (int after = 0; after < 2; ++after) {
    file = fopen(argv[1], "rb");
    for (int i = 0; i < COUNT; ++i) {
      const size_t whole = (sizes[i] + PAGE - 1) / PAGE * PAGE;
      unsigned char *p = mmap(0, whole + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (p == MAP_FAILED || mprotect(p + PAGE, whole, PROT_READ | PROT_WRITE)) return 2;
      arrays[i] = p + PAGE + (after ? whole - sizes[i] : 0);
      if (i < INPUTS && fread(arrays[i], 1, sizes[i], file) != sizes[i]) return 3;
    }
    fclose(file);
    if (model_run(@ARGUMENTS@)) return 4;
  }
  file = fopen(argv[2], "wb");
  for (int i = INPUTS; i < COUNT; ++i) fwrite(arrays[i], 1, sizes[i], file);
  return fclose(file) ? 5 : 0;
}
"""


def network(element: UniformType) -> ModuleOp:
    """
    Return shapes that do and do not fill vectors, with several output stages, and depthwise layers.
    """

    def build(*inputs: SSAValue) -> Values:
        dense, channelwise = inputs[: len(SHAPES)], inputs[len(SHAPES) :]
        return [
            layer(i + 5, x, element, o, kernel, stride, padding, (d, 1), 1, spread=8 * (i % 4 == 1))
            for i, (x, (_, o, kernel, stride, padding, d)) in enumerate(
                zip(dense, SHAPES, strict=True)
            )
        ] + [
            layer(
                i,
                x,
                element,
                s[3],
                kernel,
                stride,
                padding,
                dilation,
                s[3],
                spread=8 * (i % 4 == 0),
            )
            for i, (x, (s, kernel, stride, padding, dilation)) in enumerate(
                zip(channelwise, DEPTHWISE, strict=True)
            )
        ]

    shapes = [s[0] for s in SHAPES] + [s[0] for s in DEPTHWISE]
    return make_network([(element, s) for s in shapes], build)


UNSIGNED = UniformType(1.0, 77, storage=IntegerType(8, Signedness.UNSIGNED))
WORDS = UniformType(1.0, 3000, storage=IntegerType(16))


@needs_aarch64
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", INSTRUCTIONS)
@pytest.mark.parametrize("element", (UNSIGNED, WORDS), ids=("unsigned", "words"))
def test_other_inputs(element: UniformType, name: str, tmp_path: Path):
    compare(network(element), AARCH64, name, tmp_path)


@needs_aarch64
@pytest.mark.parametrize("least", [-127, -128])
def test_two_products_of_extremes(least: int, tmp_path: Path):
    """Products of two bytes are added as 16 bits, which hold them unless a weight is -128."""
    rng = np.random.default_rng(0)
    element = UniformType(1.0)

    def build(x: SSAValue) -> Values:
        weights = constant(rng.choice([least, 127], (32, 1, 1, 72)).astype(np.int8), element)
        requant = RequantAttr(12)
        return [graph.Conv2dOp(x, weights, result_element=element, requant=requant).result]

    compare(make_network([(element, (1, 7, 5, 72))], build), AARCH64, "neon", tmp_path)
    text = AARCH64.assembly(tmp_path, AARCH64.builds["neon"])
    assert ("\tsmlal\t" in text) == (least == -127)


@needs_aarch64
@pytest.mark.parametrize("kind", TIES)
def test_ties_to_even(kind: str, tmp_path: Path):
    compare(tied_layers(TIES[kind]), AARCH64, "neon", tmp_path)


@needs_aarch64
@pytest.mark.parametrize("rows", (104, 139))
def test_a_last_strip_shorter_than_a_long_tile(rows: int, tmp_path: Path):
    """A tile never begins before the copy of the input."""
    rng = np.random.default_rng(rows)
    element = UniformType(1.0)

    def build(x: SSAValue) -> Values:
        weights = constant(rng.integers(-127, 128, (16, 96)).astype(np.int8), element)
        requant = RequantAttr(10)
        return [graph.MatmulOp(x, weights, result_element=element, requant=requant).result]

    compare(make_network([(element, (rows, 96))], build), AARCH64, "neon", tmp_path)


@needs_aarch64
@pytest.mark.parametrize("name", AARCH64.builds)
def test_every_choice_equals_the_interpreter(name: str, tmp_path: Path):
    compare(network(UniformType(1.0, -7)), AARCH64, name, tmp_path)
    text = AARCH64.assembly(tmp_path, AARCH64.builds[name])
    for choice, instruction in INSTRUCTIONS.items():
        assert f"\t{instruction}\t" in text or choice != name
    assert ("bl\tdepthwise_row_" in text) == (name != "portable")


@needs_aarch64
@pytest.mark.parametrize("shape", [*PRODUCTS, (49, 20, 24), (72, 9, 40), (11, 33, 21)])
def test_bits_of_float_products(shape: tuple[int, int, int], tmp_path: Path):
    """Fused products are added in order, also in passes that overlap and in parts of 16 outputs."""
    module, inputs, expected = products(shape)
    found = run_guarded(place(module), inputs, AARCH64, "neon", tmp_path)
    for result, sums in zip(found.values(), expected, strict=True):
        np.testing.assert_array_equal(result, sums)


@needs_aarch64
@pytest.mark.parametrize("bounds", [(0.0, 6.0), (-1.0, -0.0), (-0.0, 0.0)])
def test_signs_of_clipped_zeros(bounds: tuple[float, float], tmp_path: Path):
    """Bounds replace only values outside of them: zeros keep the sign."""
    rows = np.array([-1.0, -0.0, 0.0, 1.0], np.float32)[:, None] * np.eye(1, 16, dtype=np.float32)
    weights = np.zeros((16, 16), np.float32)
    weights[:, 0] = 2.0
    bias, clip = np.full(16, -0.0, np.float32), FunctionAttr(Function.CLIP, bounds)

    def build(x: SSAValue) -> Values:
        w, b = constant(weights), constant(bias)
        return [graph.MatmulOp(x, w, b, result_element=f32, activation=clip).result]

    module = place(make_network([(f32, rows.shape)], build))
    (found,) = run_guarded(module, {"input0": rows}, AARCH64, "neon", tmp_path).values()
    sums = np.full((4, 16), -0.0, np.float32)
    for k in range(16):
        sums = np.multiply.outer(rows[:, k], weights[:, k]) + sums
    low, high = map(np.float32, bounds)
    expected = np.where(sums < low, low, np.where(sums > high, high, sums))
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@needs_aarch64
@pytest.mark.parametrize("layer", range(len(CONVOLUTIONS)))
def test_float_convolutions(layer: int, tmp_path: Path):
    module = place(convolution(layer))
    sample = random_inputs(module)
    found = run_guarded(module, sample, AARCH64, "neon", tmp_path)
    for key, expected in run(module, sample).items():
        both = (np.asarray(array, np.float32) for array in (found[key], expected))
        np.testing.assert_allclose(*both, rtol=ROUNDING, atol=ROUNDING, err_msg=key)


def guarded(folder: Path, inputs: Sequence[TensorInfo], outputs: Sequence[TensorInfo]) -> Path:
    """Write a main program in which an access beyond an input or output is a fault."""
    tensors = [*inputs, *outputs]
    holes = {
        "COUNT": len(tensors), "INPUTS": len(inputs),
        "SIZES": ", ".join(str(t.nbytes) for t in tensors),
        "ARGUMENTS": ", ".join(f"(void *)arrays[{i}]" for i in range(len(tensors))),
    }  # fmt: skip
    path = folder / "guarded.c"
    path.write_text(filled(GUARDED, holes))
    return path


def run_guarded(
    module: ModuleOp, sample: Mapping[str, Array], cross: Cross, name: str, work: Path
) -> dict[str, Array]:
    """Return the results of C with the kernels `name` on another processor."""
    main = main_function(module)
    files = emit(module, COptions(workspace=1 << 14))
    write_files(files, work)
    ends = network_inputs(main), network_outputs(main)
    program = cross.build(work, guarded(work, *ends), (*cross.builds[name], "-O1"))
    return cross.run(program, sample, *ends)


def compare(module: ModuleOp, cross: Cross, name: str, work: Path) -> None:
    """Compare results on values of which half are extremes."""
    place(module)
    sample = random_inputs(module)
    rng = np.random.default_rng(1)
    for key, array in sample.items():
        info = np.iinfo(array.dtype.name)
        extreme = np.where(rng.random(array.shape) < 0.5, info.min, info.max)
        sample[key] = np.where(rng.random(array.shape) < 0.5, extreme, array).astype(array.dtype)
    got = run_guarded(module, sample, cross, name, work)
    for key, expected in run(module, sample).items():
        np.testing.assert_array_equal(got[key], expected, err_msg=key)
