"""
Generate reproducible synthetic samples in the declared range of each input.

Noise would average out in the first convolution, whereas real data has structure. Sample i is
therefore constant over blocks of `2**(i % 6)` elements per dimension, uniformly distributed.
"""

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.func import FuncOp

from ceras_ir.dialects.graph import element_of, is_plain, numpy_dtype, quantized_element, shape_of
from ceras_ir.dialects.graph.lookup import BYTE
from ceras_ir.network.function import input_names, states_of
from ceras_ir.network.storage import INPUT_RANGE, interval

DEFAULT_RANGE = (0.0, 1.0)
"""The range of an input without `graph.input_range`."""
PIXEL_RANGE = (0.0, 255.0)
"""The default range of an input of plain ui8."""
BLOCK_SIZES = 6
"""The number of block sizes: 1, 2, ..., 32 elements in each dimension."""


def synthetic_samples(main: FuncOp, count: int, seed: int) -> list[dict[str, NDArray[np.generic]]]:
    """Return `count` samples; equal seeds give equal samples."""
    # PCG64 and raw doubles are stable across numpy versions (NEP 19).
    generator = np.random.Generator(np.random.PCG64(seed))
    samples: list[dict[str, NDArray[np.generic]]] = []
    for i in range(count):
        sample: dict[str, NDArray[np.generic]] = {}
        for name, argument in zip(input_names(main), main.body.block.args, strict=True):
            unit = _blocks(shape_of(argument), 1 << i % BLOCK_SIZES, generator)
            element = quantized_element(argument)
            if element is not None:
                # Stored integers can have any value of the type.
                numbers = element.low + np.floor((element.high - element.low + 1) * unit)
                sample[name] = numbers.astype(numpy_dtype(element))
                continue
            default = PIXEL_RANGE if element_of(argument) == BYTE else DEFAULT_RANGE
            low, high = interval(argument, INPUT_RANGE) or default
            if is_plain(argument):
                # For indices, lengths and masks, 0 and 1 are always in range.
                numbers = np.floor(low + (high - low + 1) * unit)
                sample[name] = numbers.astype(numpy_dtype(element_of(argument)))
                continue
            sample[name] = (low + (high - low) * unit).astype(np.float32)
        samples.append(sample)
    return samples


def synthetic_steps(main: FuncOp, count: int, seed: int) -> list[dict[str, NDArray[np.generic]]]:
    """
    Return `synthetic_samples` without the inputs that are states: the network keeps these from step
    to step.
    """
    kept = {state.name for state in states_of(main)}
    samples = synthetic_samples(main, count, seed)
    return [{k: v for k, v in sample.items() if k not in kept} for sample in samples]


def _blocks(
    shape: tuple[int, ...], size: int, generator: np.random.Generator
) -> NDArray[np.float64]:
    result = generator.random([-(-extent // size) for extent in shape])
    for axis, extent in enumerate(shape):
        result = np.repeat(result, size, axis).take(range(extent), axis)
    return result
