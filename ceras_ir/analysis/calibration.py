"""
Calibration: run the float network on samples and record what its values were.

The interpreter runs one sample after the other and an observer per value looks on; nothing
of a sample is kept, so memory does not grow with their number.
"""

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, TensorType
from xdsl.ir import Operation, SSAValue

from ceras_ir.analysis.network import input_names, main_function
from ceras_ir.analysis.observers import LeastSquaresObserver, Observer
from ceras_ir.analysis.quantizable import is_alias
from ceras_ir.analysis.ranges import network_values, set_exponent, set_range
from ceras_ir.diagnostics import Finding, InputError, node_name
from ceras_ir.dialects import graph
from ceras_ir.interpreters.network import run

Array = NDArray[np.generic]


def observed_values(module: ModuleOp) -> list[SSAValue]:
    """
    The values of the network that need a range: arguments and results of operations, but for
    constants, which are known, and for values that are another one in another order.
    """
    return [
        value
        for value in network_values(main_function(module).body.block)
        if isinstance(value.type, TensorType)
        and not isinstance(value.owner, graph.ConstantOp)
        and not is_alias(value.owner)
    ]


def calibrate(
    module: ModuleOp, samples: Iterable[Mapping[str, Array]], values: Iterable[SSAValue]
) -> None:
    """Run the network on `samples` and record range and exponent of `values`."""
    main = main_function(module)
    observers: dict[SSAValue, Observer] = {v: LeastSquaresObserver() for v in values}

    def look(op: Operation, results: tuple[Array, ...]) -> None:
        for value, array in zip(op.results, results, strict=True):
            if value in observers:
                _observe(observers[value], array, op)

    for sample in samples:
        for name, argument in zip(input_names(main), main.body.block.args, strict=True):
            if argument in observers:
                _observe(observers[argument], sample[name], name)
        # What overflows becomes an error that names the operation, not a warning.
        with np.errstate(all="ignore"):
            run(module, sample, look)
    for value, observer in observers.items():
        set_range(value, observer.low, observer.high)
        set_exponent(value, observer.exponent())


def _observe(observer: Observer, array: Array, where: Operation | str) -> None:
    values = array.astype(np.float32, copy=False)
    observer.observe(values)
    # Extremes tell: a comparison with NaN is false, and an infinity is an extreme.
    if np.isfinite([values.min(), values.max()]).all():
        return
    if isinstance(where, str):
        raise InputError(f"the calibration data for input '{where}' has NaN or infinite elements")
    raise InputError(
        [
            Finding(
                node_name(where),
                where.name,
                "the result is not finite on the calibration samples; check their scale and type",
            )
        ]
    )
