"""Import IF: a constant condition selects a branch, else both are computed."""

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ceras_ir.dialects.graph import tensor_type
from ceras_ir.frontends.onnx.emission.values import Constant, Value
from ceras_ir.frontends.tflite.operation import Operation, Stored, operator


@operator("IF")
def branch(op: Operation) -> Sequence[Value]:
    """
    Import IF. With a constant condition, only the chosen subgraph is emitted. Otherwise both
    subgraphs are emitted and the results are selected; they must then have no state.
    """
    places = [op.operator.options.integer(i, "i") for i in range(2)]
    condition, operands = op.value(0), [op.value(i) for i in range(1, op.count)]
    if isinstance(condition, Constant):
        taken = condition.load().reshape(-1)
        if taken.size != 1:
            raise op.wrong("a single condition expected")
        return op.inlined(places[0] if taken[0] else places[1], operands)
    remedy = f"fix the condition '{op.input(0).name}' with --set, or convert the network without IF"
    before = dict(op.variables.current)
    taken, other = ([_emitted(op, v) for v in op.inlined(i, operands)] for i in places)
    if op.variables.current != before:
        raise op.unsupported(f"a computed condition, with a state in a branch; {remedy}")
    if [tensor_type(v) for v in taken] != [tensor_type(v) for v in other]:
        raise op.unsupported(f"branches whose results have different shapes or types; {remedy}")
    return [op.emitter.select(condition, a, b) for a, b in zip(taken, other, strict=True)]


def _emitted(op: Operation, value: Value) -> SSAValue:
    return op.stored(value) if isinstance(value, Stored) else op.emitter.materialize(value)
