"""
Passes of target dataflow: keep a single pipeline, outline it as a kernel, and allot lanes.
"""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from ceras_ir.backends.dataflow.board import load_board
from ceras_ir.backends.dataflow.dialect import LANES, LanesAttr, ReceiveOp, SendOp, lanes_of
from ceras_ir.backends.dataflow.lanes import KERNEL, Budget, choose, kernel_of, pipeline_of
from ceras_ir.backends.dataflow.options import ChipOptions
from ceras_ir.backends.dataflow.rules import DATAFLOW, pipeline_run
from ceras_ir.dialects.graph import ConstantOp, storage_type, tensor_type
from ceras_ir.dialects.mem import CPU, DEVICE, REASON, DeviceAttr, LaunchOp, device_of
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.transforms.memory.liveness import steps


@dataclass(frozen=True)
class KeepOnePipelinePass(ModulePass):
    """
    Move to the CPU every operation on device dataflow outside the pipeline. The pipeline is a run
    of consecutive operations with one value in and one out; of several runs, the one with the most
    products. A network without such a run is refused. Changes no value.
    """

    name = "keep-one-pipeline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        run = pipeline_run(main)
        if run is None:
            raise UnsupportedError(
                [
                    Finding(node_name(o), o.name, f"unsupported as a block: {reason.data}")
                    for o in steps(main)
                    if isinstance(reason := o.attributes.get(REASON), StringAttr)
                ]
                or "unsupported: the network has no convolution or product for a pipeline"
            )
        kept = set(run.operations)
        first, last = node_name(run.operations[0]), node_name(run.operations[-1])
        for operation in steps(main):
            if device_of(operation) == DATAFLOW and operation not in kept:
                operation.attributes[DEVICE] = DeviceAttr(CPU)
                operation.attributes[REASON] = StringAttr(
                    f"the circuit is one pipeline, from '{first}' to '{last}', and this is apart"
                )


@dataclass(frozen=True)
class OutlinePipelinePass(ModulePass):
    """
    Move the operations of the pipeline, with their constants, into the function `@pipeline` between
    `dataflow.receive` and `dataflow.send`. `mem.launch` of it takes their place. Changes no value:
    the function computes the same operations on the same stored integers.
    """

    name = "outline-pipeline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if any(isinstance(o, LaunchOp) for o in main.body.block.ops):
            return
        run = pipeline_run(main)
        if run is None:
            return
        kinds = [tensor_type(run.value), tensor_type(run.result)]
        function = FuncOp(
            KERNEL, ([_buffer(kind.element_type, kind.get_shape()) for kind in kinds], [])
        )
        op.body.block.add_op(function)
        source, target = function.body.block.args
        builder = Builder(InsertPoint.at_end(function.body.block))
        received = builder.insert(ReceiveOp(source, kinds[0])).result
        launch = LaunchOp(KERNEL, [run.value], [kinds[1]])
        first, last = run.operations[0], run.operations[-1]
        launch.attributes[DEVICE] = first.attributes[DEVICE]
        launch.location = last.location
        Builder(InsertPoint.after(last)).insert(launch)
        inside = set(run.operations)
        run.result.replace_uses_with_if(launch.outputs[0], lambda use: use.operation not in inside)
        constants: dict[SSAValue, SSAValue] = {}
        for operation in run.operations:
            for n, operand in enumerate(operation.operands):
                if operand is run.value:
                    operation.operands[n] = received
                elif isinstance(operand.owner, ConstantOp):
                    if operand not in constants:
                        constants[operand] = builder.insert(operand.owner.clone()).result
                    operation.operands[n] = constants[operand]
            operation.detach()
            builder.insert(operation)
        for constant in constants:
            owner = constant.owner
            if isinstance(owner, ConstantOp) and not constant.uses:
                owner.detach()
                owner.erase()
        builder.insert(SendOp(run.result, target))
        builder.insert(ReturnOp())


def _buffer(element: Attribute, shape: tuple[int, ...]) -> MemRefType[Attribute]:
    return MemRefType(storage_type(element), shape, NoneAttr(), StringAttr("dram"))


@dataclass(frozen=True)
class AllotLanesPass(ChipOptions, ModulePass):
    """
    Choose the `dataflow.lanes` of every convolution, product and average of `@pipeline`. Lanes say
    how many rows and filters are computed at once, and how weights are stored. The slowest layer
    becomes as fast as the multipliers and memories of `board` allow.

    A pipeline that has lanes keeps them. A network that the board cannot hold is refused, with the
    layer and the resource. Changes no value.
    """

    name = "allot-lanes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernel = kernel_of(op)
        if kernel is None or any(lanes_of(o) is not None for o in kernel.body.block.ops):
            return
        board, pipeline = load_board(self.board), pipeline_of(kernel)
        plan = choose(pipeline, board, Budget.of(board, self.dsp, self.ram18))
        for operation, block in pipeline.operations.items():
            if (planned := plan.convolutions.get(block)) is not None:
                operation.attributes[LANES] = LanesAttr(planned.lanes)
