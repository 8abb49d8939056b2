"""
Run a network, the function `main` of a module, on named arrays, at any level above machine code.

A `Tracer` receives the result of each operation. A `Sequence` runs steps and keeps the states, see
`ceras_ir.network.function`. `with_states` converts steps to samples of a function without states.

A network with a memory plan runs in a byte array of the size of the arena, or in an array for each
region, so that a plan in which two live values share bytes changes the result. Memory initially
contains garbage. A result that is written over an operand is computed again with parts of it
already written, in arbitrary order. The result then differs if an operation needs more than the
element that it overwrites.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import product
from math import prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Operation, SSAValue

from ceras_ir.dialects import mem
from ceras_ir.dialects.graph import numpy_dtype, quantized_element, shape_of, tensor_type
from ceras_ir.dialects.mem import arena_of, block_of, regions_of
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import (
    initial_state,
    input_names,
    main_function,
    output_names,
    states_of,
)
from ceras_ir.network.integer import quantize
from ceras_ir.support.diagnostics import InputError

Array: TypeAlias = NDArray[np.generic]
Tracer: TypeAlias = Callable[[Operation, tuple[Array, ...]], None]


class _Trace(Interpreter.Listener):
    def __init__(self, tracer: Tracer):
        self.tracer = tracer

    def did_interpret_op(self, op: Operation, results: PythonValues) -> None:
        if results:
            self.tracer(op, results)


def check_inputs(main: FuncOp, inputs: Mapping[str, Array]) -> list[Array]:
    """
    Return the arrays of `inputs` in the order of the arguments of `main`. Raise `InputError` for a
    missing or unknown name, or another shape or type.
    """
    names = input_names(main)
    if unknown := sorted(set(inputs) - set(names)):
        known = ", ".join(names) or "no inputs"
        raise InputError(f"no input named '{unknown[0]}'; the network has {known}")
    arrays: list[Array] = []
    for name, argument in zip(names, main.body.block.args, strict=True):
        if name not in inputs:
            raise InputError(f"input '{name}' is missing; got {', '.join(sorted(inputs))}")
        kind = tensor_type(argument)
        array, dtype = np.asarray(inputs[name]), numpy_dtype(kind.element_type)
        if array.shape != kind.get_shape():
            raise InputError(
                f"input '{name}' has shape {list(array.shape)}, expected {list(kind.get_shape())}"
            )
        if array.dtype != dtype and not np.can_cast(array.dtype, dtype, "same_kind"):
            raise InputError(f"input '{name}' has type {array.dtype}, expected {dtype}")
        arrays.append(np.asarray(array, dtype, order="C"))
    return arrays


def run(
    module: ModuleOp, inputs: Mapping[str, Array], tracer: Tracer | None = None
) -> dict[str, Array]:
    """
    Run the network on `inputs`, which map names of graph inputs to arrays, and return the graph
    outputs by name. `tracer` receives each operation with the results. Overflow and division by
    zero follow IEEE 754, without a warning.
    """
    return Execution(module).run(inputs, tracer)


class Execution:
    """Runs a network, which must not change between runs. Later runs need less time."""

    def __init__(self, module: ModuleOp) -> None:
        self._main = main_function(module)
        self._names = output_names(self._main)
        self._interpreter = interpreter_of(module)
        self._interpreter.is_final = True

    def run(self, inputs: Mapping[str, Array], tracer: Tracer | None = None) -> dict[str, Array]:
        """Run the network, see `run`."""
        arrays = check_inputs(self._main, inputs)
        self._interpreter.listeners = () if tracer is None else (_Trace(tracer),)
        results = self._interpreter.call_op(self._main, tuple(arrays))
        return dict(zip(self._names, results, strict=True))


def pack(x: Array, shape: tuple[int, ...]) -> Array:
    """Evaluate `mem.pack`: arrange the channels of `x` in vectors. `shape` is the packed shape."""
    rows, lanes = _vector(shape, x.ndim)
    padding = [(0, -x.shape[0] % rows), *[(0, 0)] * (x.ndim - 2), (0, -x.shape[-1] % lanes)]
    padded = np.pad(x, padding)
    split = padded.reshape(-1, rows, *x.shape[1:-1], padded.shape[-1] // lanes, lanes)
    order = (0, 4, 2, 3, 1, 5) if x.ndim == 4 else (2, 0, 1, 3)
    return np.ascontiguousarray(split.transpose(order)).reshape(shape)


def windows(x: Array, op: mem.PackWindowsOp) -> Array:
    """
    Return the windows of `x` that `mem.pack_windows` gathers (im2col), [N, H, W, elements of a
    window and constants], before they are packed in vectors.
    """
    n, rows, columns, _ = op.plain_shape
    (kh, kw), (sh, sw), (top, left) = (
        extents.get_values() for extents in (op.kernel, op.strides, op.offset)
    )
    height, width, channels = x.shape[1:]
    down, across = (rows - 1) * sh + kh, (columns - 1) * sw + kw
    padded = np.full((n, down, across, channels), op.value.value.data, x.dtype)
    visible = x[:, : max(0, down - top), : max(0, across - left)]
    padded[:, top : top + height, left : left + width] = visible
    parts = np.lib.stride_tricks.sliding_window_view(padded, (kh, kw), (1, 2))[:, ::sh, ::sw]
    parts = parts.transpose(0, 1, 2, 4, 5, 3).reshape(n, rows, columns, -1)
    constants = np.array(op.constants.get_values(), x.dtype)
    added = np.broadcast_to(constants, (n, rows, columns, len(constants)))
    return np.concatenate([parts, added], axis=3)


def pack_tiles(x: Array, op: mem.PackTilesOp) -> Array:
    """Evaluate `mem.pack_tiles`: arrange the weights `x` of a matrix product in square tiles."""
    plain = x if op.transposed is None else x.T
    n, k, *_, lanes = shape_of(op.result)
    padded = np.pad(plain, [(0, -extent % lanes) for extent in plain.shape])
    split = padded.reshape(n, lanes, k, lanes).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(split).reshape(shape_of(op.result))


def fold_zero_point(bias: Array, tiles: Array, zero_point: int) -> Array:
    """
    Evaluate `mem.fold_zero_point`: subtract `zero_point` times the sum of weights (`tiles`) for
    each output from `bias`.
    """
    sums = tiles.astype(np.int64).sum(axis=(1, 2, 3, 5)) * zero_point
    blocks, lanes = sums.shape
    rows = sums.reshape(blocks, *(1,) * (bias.ndim - 2), lanes)
    return (bias.astype(np.int64) - rows).astype(bias.dtype)


def unpack(x: Array, shape: tuple[int, ...]) -> Array:
    """
    Evaluate `mem.unpack`: restore an array of `shape` from vectors. It is the inverse of `pack`.
    """
    split = x.reshape(*x.shape[: len(shape)], *_vector(x.shape, len(shape)))
    order = (0, 4, 2, 3, 1, 5) if len(shape) == 4 else (1, 2, 0, 3)
    vectors = split.transpose(order)
    padded = vectors.reshape(-1, *shape[1:-1], vectors.shape[-2] * vectors.shape[-1])
    return np.ascontiguousarray(padded[: shape[0], ..., : shape[-1]])


def _vector(packed: tuple[int, ...], rank: int) -> tuple[int, int]:
    rows, lanes = (1, *packed[rank:])[-2:]
    return rows, lanes


@register_impls
class MemFunctions(InterpreterFunctions):
    @impl(mem.PackOp)
    def pack(self, interpreter: Interpreter, op: mem.PackOp, args: PythonValues):
        return (pack(args[0], shape_of(op.result)),)

    @impl(mem.PackWindowsOp)
    def pack_windows(self, interpreter: Interpreter, op: mem.PackWindowsOp, args: PythonValues):
        return (pack(windows(args[0], op), shape_of(op.result)),)

    @impl(mem.PackTilesOp)
    def pack_tiles(self, interpreter: Interpreter, op: mem.PackTilesOp, args: PythonValues):
        return (pack_tiles(args[0], op),)

    @impl(mem.FoldZeroPointOp)
    def fold_zero_point(
        self, interpreter: Interpreter, op: mem.FoldZeroPointOp, args: PythonValues
    ):
        return (fold_zero_point(args[0], args[1], op.zero_point.value.data),)

    @impl(mem.UnpackOp)
    def unpack(self, interpreter: Interpreter, op: mem.UnpackOp, args: PythonValues):
        return (unpack(args[0], shape_of(op.result)),)

    @impl(mem.LaunchOp)
    def launch(self, interpreter: Interpreter, op: mem.LaunchOp, args: PythonValues):
        # Garbage in buffers exposes a kernel that leaves gaps.
        outputs: list[Array] = []
        for result in op.outputs:
            kind = tensor_type(result)
            outputs.append(np.full(kind.get_shape(), 0x55, numpy_dtype(kind.element_type)))
        interpreter.call_op(op.kernel.string_value(), (*args, *outputs))
        return tuple(outputs)


GARBAGE = 0xA5

ORDER_BITS = 4
"""
Bits of a shuffled index. Elements with bit 0, then elements with bit 1, are written first. A bit
separates each pair of up to 16 elements, and 15 of 16 pairs of more.
"""


def run_in_arena(
    module: ModuleOp, inputs: Mapping[str, Array], tracer: Tracer | None = None
) -> dict[str, Array]:
    """
    Run a network with a memory plan like `run`, but store each value at the address in `mem.block`
    in an array of bytes, so that an error in the plan changes the results. Values without a block
    have separate arrays.
    """
    main = main_function(module)
    arena = arena_of(main)
    if arena is None:
        raise InputError("values have no blocks; run --allocate-blocks first")
    sizes = {r.region.data: r.size.data for r in regions_of(main)} or {"": arena.size.data}
    memory = {region: np.full(size, GARBAGE, np.uint8) for region, size in sizes.items()}
    without_block: dict[SSAValue, Array] = {}

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
            raise InputError(f"a block extends to byte {end:,} of an arena of {size} bytes")
        # Rows of bytes with distance `pitch`, viewed as rows of elements.
        lines = np.lib.stride_tricks.as_strided(region[offset:], (rows, width), (pitch, 1))
        return lines.view(dtype)

    def store(value: SSAValue, array: Array) -> None:
        block = view(value)
        if block is None:
            without_block[value] = array
        else:
            block[...] = array.reshape(block.shape)

    def load(value: SSAValue) -> Array:
        block = view(value)
        return without_block[value] if block is None else block.reshape(shape_of(value)).copy()

    def written_over(op: Operation, before: Iterable[Array], result: Array) -> Array:
        """
        Store `result`, and return the result of a kernel that reads some elements of the operands
        after it has written other elements. The two differ if the plan is wrong.
        """
        block = view(op.results[0])
        operands = [view(operand) for operand in op.operands]
        if block is None or not any(
            o is not None and np.may_share_memory(block, o) for o in operands
        ):
            return result
        kept, result = block.copy(), result.reshape(block.shape)
        block[...] = result
        after = map(load, op.operands)
        if all(a.tobytes() == b.tobytes() for a, b in zip(after, before, strict=True)):
            return result  # The operation copies a value to the same block, as a reshape does.
        shuffled = np.random.default_rng(0).permutation(result.size).reshape(block.shape)
        found = result
        for bit, side in product(range(ORDER_BITS), (0, 1)):
            is_early = (shuffled >> bit & 1) == side
            block[...] = np.where(is_early, result, kept)
            (late,) = interpreter.run_op(op, tuple(map(load, op.operands)))
            found = np.where(is_early, found, late.reshape(block.shape))
        return found

    for argument, array in zip(main.body.block.args, check_inputs(main, inputs), strict=True):
        store(argument, array)
    interpreter = interpreter_of(module)
    # Constants in the arena are initialized first.
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
    raise AssertionError("no func.return")


Runner: TypeAlias = Callable[[Mapping[str, Array], Tracer | None], dict[str, Array]]


class Sequence:
    """
    Runs a network with states step by step, and keeps the states from a step to the next. The
    network may be at any level above machine code, and must not change between steps.
    """

    def __init__(self, module: ModuleOp):
        main = main_function(module)
        in_arena = partial(run_in_arena, module)
        self._run: Runner = Execution(module).run if arena_of(main) is None else in_arena
        self._names = {state.name: state.result_name for state in states_of(main)}
        self.states: dict[str, Array] = {s.name: initial_state(s) for s in states_of(main)}
        """The states that the next step receives, by the names of arguments."""

    def step(self, sample: Mapping[str, Array], tracer: Tracer | None = None) -> dict[str, Array]:
        """
        Run the network on a sample and the present states. Return the outputs that are not states.
        """
        results = self._run({**sample, **self.states}, tracer)
        self.states = {name: results[result] for name, result in self._names.items()}
        kept = set(self._names.values())
        return {name: array for name, array in results.items() if name not in kept}


def in_turn(module: ModuleOp, samples: Iterable[Mapping[str, Array]]) -> Iterator[dict[str, Array]]:
    """
    Run the network on each sample in order, from the initial states on, and yield the outputs that
    are not states.
    """
    yield from map(Sequence(module).step, samples)


def with_states(
    module: ModuleOp, samples: Iterable[Mapping[str, Array]]
) -> Iterator[Mapping[str, Array]]:
    """
    Yield each sample with the states before it as additional inputs, as the network computes them
    for the samples in order.
    """
    sequence = Sequence(module)
    if not sequence.states:
        yield from samples
        return
    for sample in samples:
        yield {**sample, **sequence.states}
        sequence.step(sample)


def as_stored(module: ModuleOp, sample: Mapping[str, Array]) -> dict[str, Array]:
    """
    Convert a sample with states for the quantized network: float states become stored integers.
    Other inputs are unchanged.
    """
    found = dict(sample)
    for state in states_of(main_function(module)):
        element, given = quantized_element(state.argument), found[state.name]
        if element is not None and given.dtype.kind == "f":
            found[state.name] = quantize(given.astype(np.float32, copy=False), element)
    return found
