"""
Print docs/conformance.md: the test suite of ONNX in the interpreter and as C.

    python docs/tools/conformance_page.py TOOLS             write the page: minutes
    python docs/tools/conformance_page.py TOOLS --every 20  print the result of a sample

The folder TOOLS has `onnx_conformance.py`, which loads the cases and their tolerances, and
`onnx_edge_required.txt`, the list of cases that an edge compiler should support. The other cases of
the node suite may be refused. Each case runs like
`ceras-run MODEL --inputs IN.npz --outputs OUT.npz [--target c]`, but in this process.
"""

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ceras_ir.driver.run import main as ceras_run

PAGE = Path(__file__).resolve().parent.parent / "conformance.md"
ENGINES = ("interp", "c")
STATUSES = ("PASS", "UNSUPPORTED", "WRONG", "FAIL", "DIRTY")
WIDTH = 100

HEAD = """\
<!-- Written by docs/tools/conformance_page.py. -->

# Conformance

The first table has the cases of the ONNX test suite that an edge compiler should support, with
parameters as initializers. `ceras-run` runs each case on all data sets, in the interpreter
(`interp`) and with `--target c`. A case has one of these statuses; a status without a column does
not occur:

- PASS: the result is within the tolerance of the case; integers and types are equal.
- UNSUPPORTED: exit status 3 with a reason and no output.
- WRONG: another result. FAIL: another exit status. DIRTY: a failed run leaves a file.
"""

WHOLE = """\
## The complete node suite

The second table has all node cases of the `onnx` package, expanded functions included. Results in
bfloat16 may differ by half a unit in the last place, because they are computed in float32.

`make fuzz-node-suite` runs the suite with only the files of the `onnx` package: each case with
computed operands, and again with the operands after the first as initializers. The test suite runs
a sample.
"""
PARAMETERS = {
    **dict.fromkeys(("DFT", "STFT", "CumSum", "CumProd", "Trilu", "CenterCropPad"), "1-"),
    **dict.fromkeys(("OneHot", "AffineGrid", "Col2Im", "Compress"), "1-"),
    **dict.fromkeys(("HannWindow", "HammingWindow", "BlackmanWindow", "MelWeightMatrix"), "0-"),
    **dict.fromkeys(("NonMaxSuppression", "MaxUnpool"), "2-"),
}
"""Operator -> operands that a deployed model has as constants, in the notation of the harness."""

CAUSAL_CONVOLUTION = "CausalConvWithState"
"""An operator with weights and bias as parameters, and a state as input."""

BFLOAT16_TOLERANCE = 2.0**-8


@dataclass(frozen=True)
class Outcome:
    """The result of a case in an engine."""

    name: str
    group: str
    engine: str
    status: str
    reason: str = ""


def harness(tools: Path) -> Any:
    """Return the module that loads the cases."""
    if str(tools) not in sys.path:
        sys.path.append(str(tools))
    module: Any = import_module("onnx_conformance")
    module.PARAM_INPUTS.update(PARAMETERS)
    return module


def required_cases(tools: Path) -> list[Any]:
    """Return the cases of the list, sorted by name."""
    lines = (tools / "onnx_edge_required.txt").read_text("utf-8").splitlines()
    names = {line.split("#")[0].strip() for line in lines}
    kinds = {"node", "expanded", "pytorch-converted", "pytorch-operator", "simple", "light"}
    cases, _ = harness(tools).load_cases(kinds)
    return sorted((case for case in cases if case.name in names), key=lambda case: case.name)


def all_node_cases(tools: Path) -> list[Any]:
    """Return all node cases, sorted by name."""
    from onnx.backend.test.loader import load_model_tests

    known = harness(tools)
    cases = [
        known.Case(t.name, "node", "all node cases", t.model, t.data_sets, t.rtol, t.atol)
        for t in load_model_tests(kind="node")
    ]
    by_name = {case.name: case for case in cases}
    for case in cases:
        whole = by_name.get(case.name.removesuffix("_expanded"), case)
        ours = whole.model.graph.node[0].op_type == CAUSAL_CONVOLUTION
        if len(case.data) != 1 or not (ours or case is not whole):
            continue  # The harness converts its parameters to initializers.
        fixed = _parameters(known, whole) & {value.name for value in case.model.graph.input}
        if fixed and not case.model.graph.initializer:
            _freeze(case, fixed)
    return sorted((_in_float32(case) for case in cases), key=lambda case: case.name)


def _parameters(known: Any, whole: Any) -> set[str]:
    """Return the inputs of a node case that a deployed model has as initializers."""
    node = whole.model.graph.node[0]
    if node.op_type == CAUSAL_CONVOLUTION:
        return set(node.input[1:3])  # The state after them is an input.
    kept = {value.name for value in known.freeze(whole)[0].graph.input}
    return {value.name for value in whole.model.graph.input} - kept


def _freeze(case: Any, fixed: set[str]) -> None:
    """Convert some inputs to initializers."""
    import onnx

    # ONNX caches the cases.
    case.model = onnx.ModelProto.FromString(case.model.SerializeToString())
    real = [value.name for value in case.model.graph.input]
    (inputs, outputs) = case.data[0]
    kept = [value for value in case.model.graph.input if value.name not in fixed]
    for name, array in zip(real, inputs, strict=False):
        if name in fixed:
            tensor = onnx.TensorProto()
            tensor.CopyFrom(
                array
                if isinstance(array, onnx.TensorProto)
                else onnx.numpy_helper.from_array(np.asarray(array))
            )
            tensor.name = name
            case.model.graph.initializer.append(tensor)
    del case.model.graph.input[:]
    case.model.graph.input.extend(kept)
    case.data = [([a for n, a in zip(real, inputs, strict=False) if n not in fixed], outputs)]


def has_numbers(case: Any) -> bool:
    """Return whether inputs and outputs are nonempty tensors of supported types."""
    from onnx import TensorProto

    from ceras_ir.frontends.onnx.model.model_file import element_type

    for value in (*case.model.graph.input, *case.model.graph.output):
        kind = value.type.tensor_type
        if value.type.WhichOneof("value") != "tensor_type":
            return False
        halves = (TensorProto.INT4, TensorProto.UINT4)
        if element_type(kind.elem_type) is None or kind.elem_type in halves:
            return False
        if any(dim.HasField("dim_value") and not dim.dim_value for dim in kind.shape.dim):
            return False
    return all(node.domain in ("", "ai.onnx") for node in case.model.graph.node)


def _in_float32(case: Any) -> Any:
    """Return the case with float32 instead of bfloat16, which npz files lack, and only tensors."""
    data: list[tuple[list[Any], list[Any]]] = []
    for inputs, outputs in case.data:
        ends = [[_array(value) for value in values] for values in (inputs, outputs)]
        halved = any(is_halved for values in ends for _, is_halved in values)
        if halved:
            case.rtol = max(case.rtol, BFLOAT16_TOLERANCE)
        data.append(([value for value, _ in ends[0]], [value for value, _ in ends[1]]))
    case.data = data
    return case


def _array(value: Any) -> tuple[Any, bool]:
    """Return an array for a file, and whether it was bfloat16. A sequence becomes empty."""
    import onnx

    if isinstance(value, onnx.TensorProto):
        value = onnx.numpy_helper.to_array(value)
    # Sequences, which may be ragged, and optional values.
    array: NDArray[Any] = np.zeros(0) if isinstance(value, list) else np.asarray(value)
    if array.dtype == object:
        return np.zeros(0), False
    is_halved = array.dtype.name == "bfloat16"
    return (array.astype(np.float32) if is_halved else array), is_halved


def outcome(tools: Path, case: Any, engine: str) -> Outcome:
    """Run a case."""
    known = harness(tools)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model, data = known.materialise(case, folder, "freeze")
        output = folder / "out.npz"
        for inputs, reference in data:
            arguments = [str(model), "--inputs", str(inputs), "--outputs", str(output)]
            messages = io.StringIO()
            with contextlib.redirect_stderr(messages):
                status = ceras_run([*arguments, "--target", engine])
            if status:
                kind = "UNSUPPORTED" if status == 3 else "FAIL"
                kind = "DIRTY" if output.exists() else kind
                reason = messages.getvalue().strip().replace(f"{model}: ", "")
                return Outcome(case.name, case.group, engine, kind, reason)
            wrong = known.compare(reference, output, case.rtol, case.atol)
            if wrong is not None:
                return Outcome(case.name, case.group, engine, "WRONG", wrong)
            output.unlink()
    return Outcome(case.name, case.group, engine, "PASS")


def page(required: Sequence[Outcome], whole: Sequence[Outcome], fixed: set[str]) -> str:
    """Return the page; `fixed` are the cases of the complete suite with tensors of numbers."""
    failed = [o for o in whole if o.status != "UNSUPPORTED"]
    parts = [HEAD, *_table(required), "", *_exceptions(required)]
    parts += ["", WHOLE, *_table(whole), "", *(_exceptions(failed) or ["No case is wrong."])]
    parts += ["", *_shares([o for o in whole if o.name in fixed])]
    return "\n".join(parts) + "\n"


def _shares(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Yield the number of passed cases of `fixed`, and the operators of refused cases."""
    passed: list[str] = []
    for engine in ENGINES:
        mine = [o for o in outcomes if o.engine == engine]
        good = sum(o.status == "PASS" for o in mine)
        passed.append(f"{good} ({100 * good / max(len(mine), 1):.1f}%) pass in {engine}")
    count = len(outcomes) // len(ENGINES)
    kinds = "floats of 16 to 64 bits, integers of 8 to 64 or booleans"
    yield fill(f"Of {count} cases with nonempty tensors, {kinds}, {', '.join(passed)}.", WIDTH)
    refused = Counter(
        o.reason.partition("unsupported ")[2].partition(":")[0]
        for o in outcomes
        if o.engine == ENGINES[0] and o.status == "UNSUPPORTED"
    )
    names = ", ".join(f"{name} {count}" for name, count in refused.most_common())
    yield "\n" + fill(f"Refused of these, by operator: {names}.", WIDTH)


def _table(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """
    Yield a line for each group of operators, and the total of several groups. Statuses that do not
    occur have no column, and engines with equal counts share a column.
    """
    counts = Counter((o.group, o.engine, o.status) for o in outcomes)
    cases = Counter(o.group for o in outcomes if o.engine == ENGINES[0])
    columns: dict[tuple[str, ...], list[str]] = {}
    for status in STATUSES:
        for engine in ENGINES:
            cells = [counts[group, engine, status] for group in sorted(cases)]
            if any(cells):
                key = (status, *map(str, [*cells, *([sum(cells)] if len(cells) > 1 else [])]))
                columns.setdefault(key, []).append(engine)
    heads = [f"{', '.join(engines)}: {key[0]}" for key, engines in columns.items()]
    yield "| group | cases | " + " | ".join(heads) + " |"
    yield "|---" * (len(heads) + 2) + "|"
    groups = [*sorted(cases), *(["all"] if len(cases) > 1 else [])]
    for i, group in enumerate(groups, 1):
        total = sum(cases.values()) if group == "all" else cases[group]
        yield f"| {group} | {total} | " + " | ".join(key[i] for key in columns) + " |"


def _exceptions(outcomes: Sequence[Outcome]) -> list[str]:
    """Return the cases that did not pass, with their messages."""
    lines = [
        f"- `{o.name}` ({o.engine}): {o.status}: {o.reason}" for o in outcomes if o.status != "PASS"
    ]
    return ["### Not passed\n", *lines] if lines else []


def _whole(tools: Path, required: Sequence[Outcome], every: int) -> Iterator[Outcome]:
    """Yield outcomes of all node cases, without repeating those of `required`."""
    known = {(o.name, o.engine): o for o in required}
    for engine in ENGINES:
        for case in all_node_cases(tools)[::every]:
            done = known.get((case.name, engine))
            yield replace(done, group=case.group) if done else outcome(tools, case, engine)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tools", type=Path, help="the folder of onnx_conformance.py")
    parser.add_argument("--every", type=int, help="run each N-th case and print the result")
    arguments = parser.parse_args()
    every = arguments.every or 1
    cases = required_cases(arguments.tools)[::every]
    outcomes = [outcome(arguments.tools, case, engine) for engine in ENGINES for case in cases]
    whole = [*_whole(arguments.tools, outcomes, every)]
    fixed = {case.name for case in all_node_cases(arguments.tools) if has_numbers(case)}
    text = page(outcomes, whole, fixed)
    if arguments.every is not None:
        print(text)
    else:
        PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
