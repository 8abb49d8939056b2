"""Reduce networks with a planted bug with `ceras-reduce`, and check the refusals."""

import shlex
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from conftest import Tool
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.driver.opt.modes import ShellCommand
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.verification import find_invalid
from ceras_ir.support.diagnostics import InputError, UsageError
from ceras_ir.workbench.reduce.ir_subject import IrSubject
from ceras_ir.workbench.reduce.onnx_subject import OnnxSubject, is_valid
from ceras_ir.workbench.reduce.search import Reduction, smallest_subset

OPT = f"{shlex.quote(sys.executable)} -m ceras_ir opt"
"""The command, whether or not it is on the path."""

DIGITS = Path(__file__).parents[3] / "examples/digits/digits.onnx"


def chain(layers: int, odd: int) -> str:
    """Build convolutions, rectifiers and shortcuts in turn, with a square root as layer `odd`."""
    kind, weights = "tensor<1x8x8x16xf32>", "tensor<16x1x1x16xf32>"
    random = np.random.default_rng(0)
    lines = [f'func.func @main(%x: {kind} {{graph.name = "x"}})', f"    -> {kind} {{"]
    last = "%x"
    for i in range(layers):
        if i == odd or i % 3 == 1:
            function = "sqrt" if i == odd else "relu"
            lines.append(f'  %v{i} = graph.unary <{function}> {last} : {kind} loc("layer{i}")')
        elif i % 3 == 0:
            data = random.normal(size=256).astype(np.float32).tobytes().hex().upper()
            lines.append(f'  %w{i} = graph.constant dense<"0x{data}"> : {weights} : {weights}')
            types = f"({kind}, {weights}) -> {kind}"
            lines.append(f'  %v{i} = graph.conv2d {last}, %w{i} : {types} loc("layer{i}")')
        else:
            lines.append(
                f"  %v{i} = graph.binary add {last}, %v{i - 1} : ({kind}, {kind}) -> {kind} "
                f'loc("layer{i}")'
            )
        last = f"%v{i}"
    return "\n".join([*lines, f"  func.return {last} : {kind}", "}", ""])


PLUGIN = """
from dataclasses import dataclass
from xdsl.passes import ModulePass
from ceras_ir.dialects import graph

@dataclass(frozen=True)
class PlantedPass(ModulePass):
    "Crash on square roots of convolutions."
    name = "planted"

    def apply(self, ctx, op):
        for each in op.walk():
            if isinstance(each, graph.UnaryOp) and each.function.data.value == "sqrt":
                if isinstance(each.input.owner, graph.Conv2dOp):
                    raise KeyError("planted")
"""


def test_a_subset_is_found_in_few_questions() -> None:
    asked = 0

    def interesting(kept: list[int]) -> bool:
        nonlocal asked
        asked += 1
        return {97}.issubset(kept)

    assert smallest_subset(range(180), interesting) == [97] and asked < 20
    assert smallest_subset(range(64), lambda k: {3, 40, 41} <= set(k)) == [3, 40, 41]
    assert smallest_subset(range(5), lambda k: True) == []


def reduced(text: str, command: str) -> tuple[str, Reduction[ModuleOp]]:
    module = parse_text(load_context(), text, "in.mlir")
    found = Reduction(
        IrSubject(module, names=False),
        module,
        ShellCommand(command, ".mlir", timeout=60, limit=None),
    )
    found.run(lambda _: None)
    result = found.data.decode()
    assert not find_invalid(parse_text(load_context(), result, "out.mlir"))
    return result, found


@pytest.mark.slow
def test_one_operation_of_180_is_left_with_the_smallest_shape() -> None:
    started = time.monotonic()
    text, found = reduced(chain(180, 97), "grep -q sqrt {input}")
    assert found.first == 180 and found.left == 1
    assert "%v97 = graph.unary <sqrt> %v96 : tensor<1x1x1x1xf32>" in text
    assert text.count("graph.") == 2  # The text contains the operation and the name of the input.
    assert time.monotonic() - started < 60


@pytest.mark.slow
def test_neighbours_meet_when_what_is_between_them_goes() -> None:
    # The first square root must depend on the second, whatever the operations between them.
    text = chain(18, 4).replace("%v13 = graph.unary <relu>", "%v13 = graph.unary <abs>")
    program = (
        "import re, sys; t = open(sys.argv[1]).read()\n"
        "a = re.search(r'(%\\S+) = graph.unary <sqrt>', t)\n"
        "seen = {a[1]} if a else set()\n"
        "for line in t.splitlines():\n"
        "    names = re.findall(r'%\\w+', line)\n"
        "    if names and seen & set(names[1:]): seen.add(names[0]); found = '<abs>' in line\n"
        "    else: found = False\n"
        "    if found: sys.exit(0)\n"
        "sys.exit(1)"
    )
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} {{input}}"
    text, found = reduced(text, command)
    assert found.left == 2 and "<sqrt>" in text and "<abs>" in text


def test_operations_in_loops_go_too() -> None:
    text = """
    func.func @other() { func.return }
    func.func @main(%a: memref<4xf32>) {
      %z = arith.constant 0 : index
      %o = arith.constant 1 : index
      scf.for %i = %z to %o step %o {
        %1 = memref.load %a[%i] : memref<4xf32>
        %2 = arith.addf %1, %1 : f32
        %3 = arith.mulf %1, %1 : f32
        memref.store %2, %a[%i] : memref<4xf32>
      }
      func.return
    }
    """
    found = reduced(text, "grep -q arith.addf {input}")[0]
    assert "arith.mulf" not in found and "memref.store" not in found and "@other" not in found


def test_attributes_and_constants_shrink() -> None:
    text = """
    func.func @main(%x: tensor<1x6xf32>) -> tensor<1x6xf32> attributes {keep = 1 : i32, drop} {
      %c = graph.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32> : tensor<6xf32>
      %0 = graph.binary add %x, %c {drop} : (tensor<1x6xf32>, tensor<6xf32>) -> tensor<1x6xf32>
      func.return %0 : tensor<1x6xf32>
    }
    """
    found = reduced(text, "grep -q keep {input} && grep -q 'binary add' {input}")[0]
    assert "drop" not in found and "tensor<1x1xf32>" in found


@pytest.mark.slow
def test_what_a_plugin_breaks_on(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "bug.py").write_text(PLUGIN)
    (tmp_path / "in.mlir").write_text(chain(12, 7))
    done = tool(
        "ceras-reduce", "in.mlir", "-o", "out.mlir", "--test",
        f"cd {shlex.quote(str(tmp_path))} && {OPT} {{input}} --load-pass-plugin=bug.py "
        "--planted --reproducer= 2>&1 | grep -q 'crashed: KeyError'",
    )  # fmt: skip
    if done.status:
        pytest.fail(done.stderr)
    assert "in.mlir: 12 operations, reduced to 2 in" in done.stderr and done.stdout == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bug.py", "in.mlir", "out.mlir"]
    text = (tmp_path / "out.mlir").read_text()
    assert 'loc("layer6")' in text and 'loc("layer7")' in text


def big_model(nodes: int) -> onnx.ModelProto:
    kinds = ("Conv", "Relu", "Add")
    random = np.random.default_rng(0)
    made, initializers, last = list[onnx.NodeProto](), list[TensorProto](), "x"
    for i in range(nodes):
        name, kind = f"t{i}", "Sqrt" if i == 100 else kinds[i % 3]
        inputs = [last]
        if kind == "Conv":
            array = random.normal(size=(16, 16, 3, 3)).astype(np.float32)
            initializers.append(numpy_helper.from_array(array, f"w{i}"))
            inputs.append(f"w{i}")
        inputs += [f"t{i - 1}"] * (kind == "Add")
        made.append(helper.make_node(kind, inputs, [name], name=f"node{i}"))
        if kind == "Conv":
            for key, value in (("pads", [1] * 4), ("kernel_shape", [3, 3])):
                made[-1].attribute.append(helper.make_attribute(key, value))
        last = name
    shape = [1, 16, 32, 32]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in ("x", last)]
    graph = helper.make_graph(made, "g", ends[:1], ends[1:], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


@pytest.mark.slow
def test_onnx_models_are_reduced_and_stay_valid(tmp_path: Path) -> None:
    model = big_model(180)
    program = (
        "import onnx, sys; n = onnx.load(sys.argv[1]).graph.node; "
        "sys.exit(not any(a.op_type == 'Conv' and b.op_type == 'Sqrt' and a.output[0] in b.input "
        "for a in n for b in n))"
    )
    model.graph.node[100].input[0] = "t99"
    command = f"{shlex.quote(sys.executable)} -c {shlex.quote(program)} {{input}}"
    found = Reduction(
        OnnxSubject(model), model, ShellCommand(command, ".onnx", timeout=60, limit=None)
    )
    found.run(lambda _: None)
    small = onnx.ModelProto.FromString(found.data)
    assert is_valid(small) and [n.op_type for n in small.graph.node] == ["Conv", "Sqrt"]
    assert len(found.data) < 400 and small.graph.initializer[0].dims == [1, 1, 1, 1]


def test_constants_of_models_are_kept_while_they_are_read() -> None:
    model = onnx.ModelProto.FromString(DIGITS.read_bytes())
    found = Reduction(
        OnnxSubject(model),
        model,
        ShellCommand("grep -q Gemm {input}", ".onnx", timeout=60, limit=None),
    )
    found.run(lambda _: None)
    small = onnx.ModelProto.FromString(found.data)
    assert [n.op_type for n in small.graph.node] == ["Gemm"] and is_valid(small)


def test_a_run_that_takes_too_long_is_not_interesting() -> None:
    command = ShellCommand("sleep 30; cat {input}", ".mlir", timeout=0.2, limit=None)
    started = time.monotonic()
    assert command.status(b"x") is None and time.monotonic() - started < 10


def test_the_smallest_so_far_is_written_when_the_time_is_over(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "in.mlir").write_text(chain(12, 7))
    done = tool(
        "ceras-reduce", "in.mlir", "-o", "out.mlir", "--time-limit", "0.000001", "--test",
        "grep -q sqrt {input}",
    )  # fmt: skip
    assert done.status == 0 and (tmp_path / "out.mlir").read_text().count("graph.") > 10


def test_an_interrupt_writes_the_smallest_so_far(tool: Tool, tmp_path: Path) -> None:
    (tmp_path / "in.mlir").write_text(chain(2, 1))
    test = "kill -INT $PPID; sleep 9; true {input}"
    done = tool("ceras-reduce", "in.mlir", "-o", "out.mlir", "--test", test)
    assert done.status == 130 and "graph.conv2d" in (tmp_path / "out.mlir").read_text()
    assert done.stderr.endswith("interrupted: the smallest input so far is written\n")


@pytest.mark.parametrize(
    ("arguments", "status", "text"),
    [
        (["in.mlir", "--test", "false {input}"], 1, "in.mlir: error: cannot reduce"),
        (["in.mlir", "--test", "true"], 2, "the command of --test must have {input}"),
        (["in.txt", "--test", "true {input}"], 1, "in.txt: error: expected a model"),
        (["none.mlir", "--test", "true {input}"], 1, "none.mlir: error: No such file"),
        (["none.onnx", "--test", "true {input}"], 1, "none.onnx: error: cannot read"),
        (["bad.mlir", "--test", "true {input}"], 1, "bad.mlir:1:1: error:"),
        (["bad.onnx", "--test", "true {input}"], 1, "bad.onnx: error: not an ONNX model"),
        (["in.mlir", "--test", "true {input}", "--timeout", "0"], 2, "--timeout must be positive"),
    ],
)
def test_what_is_wrong_is_one_line(
    tool: Tool, tmp_path: Path, arguments: list[str], status: int, text: str
) -> None:
    (tmp_path / "in.mlir").write_text(chain(3, 1))
    (tmp_path / "bad.mlir").write_text("?")
    (tmp_path / "bad.onnx").write_text("?")
    done = tool("ceras-reduce", *arguments, "-o", "out.mlir")
    assert done.status == status and text in done.stderr and "Traceback" not in done.stderr
    assert not (tmp_path / "out.mlir").exists()


def test_the_command_must_have_the_input() -> None:
    with pytest.raises(UsageError):
        ShellCommand("true", ".mlir", timeout=1, limit=None)
    module = parse_text(load_context(), chain(3, 1), "in.mlir")
    with pytest.raises(InputError, match="takes too long"):
        Reduction(
            IrSubject(module, names=False),
            module,
            ShellCommand("sleep 9; {input}", ".mlir", timeout=0.1, limit=None),
        ).run(print)
