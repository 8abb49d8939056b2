"""
Run a network with the host part in the interpreter and the launches on a VTA runner.

Operands and results of launches are in a single DRAM image, at the addresses in `mem.block`. Wrong
addresses, layouts and streams therefore change the graph outputs.
"""

from collections.abc import Mapping

import numpy as np
from xdsl.interpreter import (
    Interpreter,
    InterpreterFunctions,
    PythonValues,
    impl,
    register_impls,
)
from xdsl.ir import Operation, SSAValue

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.execution.runner import VtaRunner
from ceras_ir.dialects import graph, mem
from ceras_ir.interpreters.network import Array, check_inputs
from ceras_ir.interpreters.registry import interpreter_of
from ceras_ir.network.function import main_function, output_names


class HostValues(Interpreter.Listener):
    """The arrays of all values that the host has computed."""

    def __init__(self, arrays: Mapping[SSAValue, Array]):
        self.arrays = dict(arrays)

    def did_interpret_op(self, op: Operation, results: PythonValues) -> None:
        self.arrays |= dict(zip(op.results, results, strict=True))


@register_impls
class RunnerFunctions(InterpreterFunctions):
    """Execute `mem.launch` on a runner, and not by the operations of the kernel."""

    def __init__(self, image: VtaImage, runner: VtaRunner, host: HostValues, garbage: int | None):
        self.runner = runner
        self.host = host.arrays
        self.dram = image.dram(garbage)
        self.numbers = {launch.ops[0]: i for i, launch in enumerate(image.launches)}
        self.starts = [launch.ops for launch in image.launches]

    @impl(mem.LaunchOp)
    def launch(self, interpreter: Interpreter, op: mem.LaunchOp, args: PythonValues):
        if (number := self.numbers.get(op)) is not None:
            values = [v for part in self.starts[number] for v in part.inputs if _is_there(v, op)]
            for value in values:
                array = np.ascontiguousarray(self.host[value])
                self._bytes(value)[...] = array.view(np.uint8).reshape(-1)
            self.runner.launch(number, self.dram)
        results: list[Array] = []
        for value in op.outputs:
            kind = graph.tensor_type(value)
            dtype = graph.numpy_dtype(kind.element_type)
            results.append(self._bytes(value).copy().view(dtype).reshape(kind.get_shape()))
        return tuple(results)

    def _bytes(self, value: SSAValue) -> np.ndarray[tuple[int], np.dtype[np.uint8]]:
        block = mem.block_of(value)
        assert block is not None
        kind = graph.tensor_type(value)
        size = int(np.prod(kind.get_shape())) * graph.numpy_dtype(kind.element_type).itemsize
        return self.dram[block.offset.data : block.offset.data + size]


def _is_there(value: SSAValue, launch: mem.LaunchOp) -> bool:
    """
    Return whether the host has computed `value` when it starts `launch` and the launches that start
    together with it. Constants are excluded: the accelerator loads them from the image.
    """
    owner = value.owner
    if isinstance(owner, graph.ConstantOp):
        return False
    return not isinstance(owner, Operation) or owner.is_before_in_block(launch)


def run_on_vta(
    image: VtaImage,
    inputs: Mapping[str, Array],
    command: str | None = None,
    *,
    garbage: int | None = None,
) -> dict[str, Array]:
    """
    Return the outputs by name. `command` is an external runner, or None for the built-in simulator.
    `garbage` is the seed of the initial contents of memory.
    """
    streams = [launch.program.instruction_bytes(image.board) for launch in image.launches]
    runner = VtaRunner(streams, image.board, command)
    main = main_function(image.module)
    arrays = tuple(check_inputs(main, inputs))
    host = HostValues(dict(zip(main.body.block.args, arrays, strict=True)))
    interpreter = interpreter_of(image.module, [host])
    functions = RunnerFunctions(image, runner, host, garbage)
    interpreter.register_implementations(functions, override=True)
    results = interpreter.call_op("main", arrays)
    return dict(zip(output_names(main), results, strict=True))
