"""
Channels with equal shifts are sorted next to each other. Integers are unchanged, and immediates
shift them.
"""

from dataclasses import replace

import numpy as np
import pytest
from backends.vta_lowering.layers import (
    Layer,
    apply,
    by_channel,
    check_all_levels,
    network,
    random_array,
    residual_shifts,
    stored,
)
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Block

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.machine.isa import Alu, AluOpcode
from ceras_ir.backends.vta.passes.sort_channels import SortChannelsPass
from ceras_ir.dialects import graph
from ceras_ir.dialects.quant import RequantAttr
from ceras_ir.interpreters.network import run


def drawn_shifts(rng: np.random.Generator, outputs: int) -> RequantAttr:
    return by_channel(RequantAttr(0), tuple(rng.choice((8, 9, 11), outputs).tolist()))


def by_vector(image: VtaImage) -> tuple[int, int]:
    """Return the number of vectors that are shifted by a vector, and by an immediate."""
    count = [0, 0]
    for launch in image.launches:
        for i in launch.program.instructions:
            if isinstance(i, Alu) and i.opcode is AluOpcode.SHR:
                runs = (i.uop_end - i.uop_bgn) * i.iter_out * i.iter_in
                count[i.use_imm] += runs
    return count[0], count[1]


def chain(seed: int) -> tuple[ModuleOp, dict[str, np.ndarray[tuple[int, ...]]]]:
    """
    Return layers with results that share channels. A sum is the residual of a later layer after a
    depthwise convolution and a pooling. The last layer computes the output.
    """
    rng = np.random.default_rng(seed)
    x = random_array(rng, (1, 5, 6, 7))
    block = Block(arg_types=[TensorType(stored(0), x.shape)])

    def layer(shape: tuple[int, ...], groups: int = 1, point: int = 0) -> Layer:
        return Layer(
            x,
            random_array(rng, shape),
            rng.integers(-900, 900, shape[0]).astype(np.int32),
            padding=(1, 1, 1, 1) if shape[1] == 3 else (0, 0, 0, 0),
            requant=drawn_shifts(rng, shape[0]),
            groups=groups,
            residual_shift=5,
            points=(point, 0),
        )

    first = layer((40, 3, 3, 7)).add_to(block, block.args[0], None)
    deep = layer((40, 3, 3, 1), 40).add_to(block, first, None)
    pool = graph.Pool2dOp(
        *(graph.Pool.MAX, deep, (3, 3)),
        result_element=graph.element_of(deep),
        strides=(1, 1),
        padding=(1, 1, 1, 1),
    )
    block.add_op(pool)
    third = replace(layer((40, 3, 3, 40)), residual_shift=residual_shifts(rng, 40))
    added = third.add_to(block, pool.result, first)
    last = layer((19, 1, 1, 40)).add_to(block, added, None)
    return network(block, last), {"input0": x}


@pytest.mark.parametrize("seed", range(3))
def test_layers_that_share_channels(seed: int):
    module, inputs = chain(seed)
    expected = run(module, inputs)["output0"]
    before = all_weights(module)
    apply(module, SortChannelsPass())
    assert all((a != b).any() for a, b in zip(before, all_weights(module), strict=True))
    np.testing.assert_array_equal(run(module, inputs)["output0"], expected)


def all_weights(module: ModuleOp) -> list[np.ndarray[tuple[int, ...]]]:
    linear = [op for op in module.walk() if isinstance(op, graph.LinearOperation)]
    return [graph.known_array(op.weights) for op in linear]


@pytest.mark.slow
def test_on_vta():
    """Fewer vectors are shifted by a vector, and all integers are unchanged."""
    counts: list[tuple[int, int]] = []
    for passes in ((), (SortChannelsPass(),)):
        module, inputs = chain(0)
        expected = run(module, inputs)["output0"]
        apply(module, *passes)
        counts.append(by_vector(check_all_levels(module, inputs, expected)))
    (before, _), (after, immediate) = counts
    assert after < before and immediate


@pytest.mark.parametrize("shifts", [(8, 10, 9), (0, 9, 9), (9, 8, None)], ids=str)
def test_vectors_that_shift_alike(shifts: tuple[int | None, ...]):
    """
    Vectors with a single shift use immediates, a shift of 0 has no instruction, and the remaining
    vectors use a vector of shifts.
    """
    rng = np.random.default_rng(3)
    amounts = [rng.choice((7, 9), 16).tolist() if s is None else [s] * 16 for s in shifts]
    layer = Layer(
        random_array(rng, (1, 4, 5, 3)),
        random_array(rng, (48, 1, 1, 3)) // 16,
        rng.integers(-90, 90, 48).astype(np.int32),
        requant=by_channel(RequantAttr(0), tuple(np.concatenate(amounts).tolist())),
    )
    image = check_all_levels(layer.module(), layer.inputs, layer.expected())
    mixed, alike = shifts.count(None), sum(s not in (None, 0) for s in shifts)
    assert by_vector(image) == (20 * mixed, 20 * alike)
