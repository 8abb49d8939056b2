"""Leave one run of operations on the device, that with the most products."""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.passes import ModulePass

from ceras_ir.backends.dataflow.region import pipeline_run
from ceras_ir.backends.dataflow.rules import DATAFLOW
from ceras_ir.dialects.mem import CPU, DEVICE, REASON, DeviceAttr, device_of
from ceras_ir.network.function import main_function
from ceras_ir.support.diagnostics import Finding, UnsupportedError, node_name
from ceras_ir.transforms.memory.analysis.liveness import steps


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
