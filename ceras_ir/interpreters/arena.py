"""
Run a network whose values have been placed, in one byte array as long as the arena, or in one
for each of its regions.

Results are written at their block and operands read back from theirs, so that a plan in
which two live values share bytes computes something else than the graph did. Memory starts
as garbage. Whatever is written over its own operand is computed again with parts of it already
written, in no particular order: an operation that reads more than the element it overwrites
computes something else, whatever it declares.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects.graph import numpy_dtype, shape_of, tensor_type
from ceras_ir.dialects.mem import arena_of, block_of, regions_of
from ceras_ir.interpreters.network import Array, Tracer, check_inputs
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import main_function, output_names
from ceras_ir.support.diagnostics import InputError

GARBAGE = 0xA5

ORDER_BITS = 4
"""
Of a shuffled index; elements whose bit is 0, then those whose bit is 1, are written first. Two
elements are told apart by one of the bits: always among 16, 15 times of 16 among more.
"""


def run_in_arena(
    module: ModuleOp, inputs: Mapping[str, Array], tracer: Tracer | None = None
) -> dict[str, Array]:
    """As `network.run`, but values live where `mem.block` says; others stay with the caller."""
    main = main_function(module)
    arena = arena_of(main)
    if arena is None:
        raise InputError("values have no blocks; run --allocate-blocks first")
    sizes = {r.region.data: r.size.data for r in regions_of(main)} or {"": arena.size.data}
    memory = {region: np.full(size, GARBAGE, np.uint8) for region, size in sizes.items()}
    elsewhere: dict[SSAValue, Array] = {}

    def view(value: SSAValue) -> NDArray[np.generic] | None:
        block = block_of(value)
        if block is None:
            return None
        kind = tensor_type(value)
        dtype = numpy_dtype(kind.element_type)
        shape = kind.get_shape()
        rows, width = prod(shape[:-1]), (1, *shape)[-1] * dtype.itemsize
        region, offset = memory.get(block.region.data), block.offset.data
        pitch = block.pitch.data or width
        end = offset + (rows - 1) * pitch + width
        if region is None or end > len(region):
            size = "no" if region is None else f"{len(region):,}"
            raise InputError(f"a block ends at byte {end:,} of its arena, which has {size} bytes")
        # Rows of bytes that are `pitch` apart, as rows of elements.
        lines = np.lib.stride_tricks.as_strided(region[offset:], (rows, width), (pitch, 1))
        return lines.view(dtype)

    def store(value: SSAValue, array: Array) -> None:
        place = view(value)
        if place is None:
            elsewhere[value] = array
        else:
            place[...] = array.reshape(place.shape)

    def load(value: SSAValue) -> Array:
        place = view(value)
        return elsewhere[value] if place is None else place.reshape(shape_of(value)).copy()

    def written_over(op: Operation, before: Sequence[Array], result: Array) -> Array:
        """The result, where what is written early destroys what is read late."""
        place = view(op.results[0])
        others = [view(operand) for operand in op.operands]
        if place is None or not any(
            o is not None and np.may_share_memory(place, o) for o in others
        ):
            return result
        kept, result = place.copy(), result.reshape(place.shape)
        place[...] = result
        after = map(load, op.operands)
        if all(a.tobytes() == b.tobytes() for a, b in zip(after, before, strict=True)):
            return result  # Moved into its own place, as by a reshape.
        shuffled = np.random.default_rng(0).permutation(result.size).reshape(place.shape)
        found = result
        for bit, side in product(range(ORDER_BITS), (0, 1)):
            is_early = (shuffled >> bit & 1) == side
            place[...] = np.where(is_early, result, kept)
            (late,) = interpreter.run_op(op, tuple(map(load, op.operands)))
            found = np.where(is_early, found, late.reshape(place.shape))
        return found

    for argument, array in zip(main.body.block.args, check_inputs(main, inputs), strict=True):
        store(argument, array)
    interpreter = interpreter_of(module)
    # Constants in the arena are there before anything runs.
    for op in main.body.block.ops:
        if not op.operands and op.results:
            store(op.results[0], interpreter.run_op(op, ())[0])
    for op in main.body.block.ops:
        if isinstance(op, ReturnOp):
            return dict(zip(output_names(main), map(load, op.operands), strict=True))
        if not op.operands:
            continue
        operands = tuple(map(load, op.operands))
        results = interpreter.run_op(op, operands)
        if len(results) == 1:
            results = (written_over(op, operands, results[0]),)
        for value, array in zip(op.results, results, strict=True):
            store(value, array)
        if tracer is not None:
            tracer(op, tuple(map(load, op.results)))
    raise AssertionError("a function ends with func.return")
