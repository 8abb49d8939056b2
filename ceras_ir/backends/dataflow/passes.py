"""Select a single pipeline for target dataflow, outline it as a kernel, and choose the lanes."""

from dataclasses import dataclass

from xdsl.builder import Builder
from xdsl.context import Context
from xdsl.dialects.builtin import MemRefType, ModuleOp, NoneAttr, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint

from ceras_ir.backends.dataflow.board import ChipOptions, load_board
from ceras_ir.backends.dataflow.circuit import CIRCUIT_FUNCTION, kernel_of, pipeline_of
from ceras_ir.backends.dataflow.dialect import LANES, LanesAttr, ReceiveOp, SendOp, lanes_of
from ceras_ir.backends.dataflow.lanes import Budget, choose
from ceras_ir.backends.dataflow.rules import DATAFLOW, pipeline_run
from ceras_ir.dialects.graph import ConstantOp, storage_type, tensor_type
from ceras_ir.dialects.mem import CPU, DEVICE, REASON, DeviceAttr, LaunchOp, device_of
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.transforms.memory.liveness import steps


@dataclass(frozen=True)
class KeepOnePipelinePass(ModulePass):
    """
    Move all operations of device dataflow outside the pipeline to the CPU.

    The pipeline has all operations that depend on a single value, its input, and on constants. The
    value with the most products is selected. A network without products is refused. Only devices
    change.

    Before:

        !x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
        !w = tensor<2x1x1x2x!quant.uniform<i8:f32, 0.5>>
        #r = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>
        #circuit = #mem.device<dataflow>
        %w = graph.constant dense<1> : tensor<2x1x1x2xi8> : !w
        %a = graph.conv2d %x, %w {requant = #r, mem.device = #circuit} : (!x, !w) -> !x loc("a")
        %b = graph.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (!x) -> !x loc("b")
        %y = graph.conv2d %b, %w {requant = #r, mem.device = #circuit} : (!x, !w) -> !x loc("c")

    After:

        #cpu = #mem.device<cpu>
        %w = graph.constant dense<1> : tensor<2x1x1x2xi8> : !w
        %a = graph.conv2d %x, %w {requant = #r, mem.device = #circuit} : (!x, !w) -> !x
        %b = graph.transpose %a {permutation = array<i64: 0, 2, 1, 3>} : (!x) -> !x
        %y = graph.conv2d %b, %w {requant = #r, mem.device = #cpu,
            mem.reason = "the circuit is a single pipeline, from 'a' to 'a'"} : (!x, !w) -> !x
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
                    f"the circuit is a single pipeline, from '{first}' to '{last}'"
                )


@dataclass(frozen=True)
class OutlinePipelinePass(ModulePass):
    """
    Move the operations of the pipeline and their constants to the function `@pipeline`.

    They are placed between `dataflow.receive` and `dataflow.send`, and replaced by a `mem.launch`.
    The rewrite is exact: the function has the same operations on the same stored integers.

    Before:

        !x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
        !w = tensor<2x1x1x2x!quant.uniform<i8:f32, 0.5>>
        !m = memref<1x4x4x2xi8, "dram">
        #r = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>
        #circuit = #mem.device<dataflow>
        %w = graph.constant dense<1> : tensor<2x1x1x2xi8> : !w
        %y = graph.conv2d %x, %w {requant = #r, mem.device = #circuit} : (!x, !w) -> !x

    After:

        %y = mem.launch @pipeline(%x) {mem.device = #circuit} : (!x) -> !x
        func.func @pipeline(%from: !m, %to: !m) {
          %a = dataflow.receive %from : !m -> !x
          %w = graph.constant dense<1> : tensor<2x1x1x2xi8> : !w
          %b = graph.conv2d %a, %w {requant = #r, mem.device = #circuit} : (!x, !w) -> !x
          dataflow.send %b, %to : !x, !m
          func.return
        }
    """

    name = "outline-pipeline"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        main = main_function(op)
        if any(isinstance(o, LaunchOp) for o in main.body.block.ops):
            return
        run = pipeline_run(main)
        if run is None:
            return
        results = run.results
        kinds = [tensor_type(value) for value in (run.value, *results)]
        function = FuncOp(
            CIRCUIT_FUNCTION, ([_buffer(kind.element_type, kind.get_shape()) for kind in kinds], [])
        )
        op.body.block.add_op(function)
        source, *targets = function.body.block.args
        builder = Builder(InsertPoint.at_end(function.body.block))
        received = builder.insert(ReceiveOp(source, kinds[0])).result
        launch = LaunchOp(CIRCUIT_FUNCTION, [run.value], kinds[1:])
        launch.attributes[DEVICE] = run.operations[0].attributes[DEVICE]
        launch.location = run.operations[-1].location
        # Other operations between those of the pipeline can use its results.
        Builder(InsertPoint.before(run.operations[0])).insert(launch)
        inside = set(run.operations)
        for value, output in zip(results, launch.outputs, strict=True):
            value.replace_uses_with_if(output, lambda use: use.operation not in inside)
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
            if isinstance(owner := constant.owner, ConstantOp) and not constant.uses:
                owner.detach()
                owner.erase()
        for value, target in zip(results, targets, strict=True):
            builder.insert(SendOp(value, target))
        builder.insert(ReturnOp())


def _buffer(element: Attribute, shape: tuple[int, ...]) -> MemRefType[Attribute]:
    return MemRefType(storage_type(element), shape, NoneAttr(), StringAttr("dram"))


@dataclass(frozen=True)
class AllotLanesPass(ChipOptions, ModulePass):
    """
    Choose the `dataflow.lanes` of each convolution, product and average of `@pipeline`.

    Lanes specify the rows and filters that are computed in parallel, and the encoding of weights.
    The slowest layer becomes as fast as the multipliers and memories of `board` permit. With
    `objective=latency`, the first frame is complete as early as they permit. Existing lanes are
    kept. A network that does not fit the board is refused, with the layer and the resource. Results
    do not depend on lanes.

    Before:

        !x = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
        !w = tensor<2x3x3x2x!quant.uniform<i8:f32, 0.5>>
        !m = memref<1x4x4x2xi8, "dram">
        #r = #graph.requant<shift = 1, rounding = half_up, low = -128, high = 127>
        func.func @pipeline(%from: !m, %to: !m) {
          %x = dataflow.receive %from : !m -> !x
          %w = graph.constant dense<1> : tensor<2x3x3x2xi8> : !w
          %y = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>, requant = #r} : (!x, !w) -> !x
          dataflow.send %y, %to : !x, !m
          func.return
        }

    After:

        #lanes = #dataflow.lanes<rows = 4, filters = 2, slots = 4, dense>
        func.func @pipeline(%from: !m, %to: !m) {
          %x = dataflow.receive %from : !m -> !x
          %w = graph.constant dense<1> : tensor<2x3x3x2xi8> : !w
          %y = graph.conv2d %x, %w {padding = array<i64: 1, 1, 1, 1>, requant = #r,
              dataflow.lanes = #lanes} : (!x, !w) -> !x
          dataflow.send %y, %to : !x, !m
          func.return
        }
    """

    name = "allot-lanes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernel = kernel_of(op)
        if kernel is None or any(lanes_of(o) is not None for o in kernel.body.block.ops):
            return
        board, pipeline = load_board(self.board), pipeline_of(kernel)
        plan = choose(pipeline, board, Budget.of(board, self.dsp, self.ram18), self.objective)
        for operation, block in pipeline.operations.items():
            if (planned := plan.convolutions.get(block)) is not None:
                operation.attributes[LANES] = LanesAttr(planned.lanes)
