"""Turn what is placed on device dataflow into one launch of one kernel."""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from ceras_ir.backends.dataflow.circuit import KERNEL
from ceras_ir.backends.dataflow.dialect import ReceiveOp, SendOp
from ceras_ir.backends.dataflow.region import pipeline_run
from ceras_ir.dialects.graph import ConstantOp, storage_type, tensor_type
from ceras_ir.dialects.mem import DEVICE, LaunchOp
from ceras_ir.network.function import main_function


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
