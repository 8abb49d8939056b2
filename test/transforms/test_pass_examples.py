"""Check that examples in docstrings of passes and rules show the effect of the pass or rule."""

from contextlib import redirect_stderr
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from docstring_examples import (
    PassExample,
    arguments,
    block_text,
    difference,
    network,
    pass_example,
)
from xdsl.dialects.builtin import ModuleOp
from xdsl.transforms.dead_code_elimination import dce

from ceras_ir.data.sample_stream import synthetic_samples
from ceras_ir.driver.opt.modes import describe_pass, rules_of
from ceras_ir.driver.opt.tool import main
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.pass_options import PassRequest, build_pipeline
from ceras_ir.pipeline.printing import print_module
from ceras_ir.transforms.pass_kinds import PipelinePass
from ceras_ir.universe import CERAS_UNIVERSE

NO_EXAMPLE = {
    "check-operations": "the targets of the core support all operations",
    "tabulate-pixels": "a table of 256 entries is longer than an example",
    "tune-tiles": "it sets schedules as `schedule-tiles` does, but executes an entire network",
}
"""
Map a pass to the reason why it has no example. Pipelines need none: their passes have examples.
A pass with rules has an example, or each rule has an example.
"""

SAMPLES = "samples.npz"
"""An example can name this file as `calibration`. It has synthetic samples of the inputs."""

SAMPLE_COUNT = 32

CLASSES = {name: load() for name, load in CERAS_UNIVERSE.all_passes.items()}

EXAMPLES = {
    (name, rule): example
    for name, cls in CLASSES.items()
    for rule, described in [("", cls), *((each.name, type(each)) for each in rules_of(cls))]
    if (example := pass_example(described)) is not None
}


@pytest.mark.parametrize("step", EXAMPLES, ids=lambda step: f"{step[0]}{{{step[1]}}}")
def test_pass_has_the_effect_of_the_example(
    step: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (name, rule), example = step, EXAMPLES[step]
    assert example.before != example.after
    problem = effect(name, rule, example)
    assert not problem, problem


def effect(name: str, rule: str, example: PassExample) -> str:
    """
    Run a pass, or a single rule, on an example. Return the difference from the text After, except
    for dead code, or from the message, except for line breaks.
    """
    module = network(example.before)
    module.verify()
    inputs = arguments(module)
    options = f"rules={rule} {example.options}" if rule else example.options
    if SAMPLES in options:
        save_samples(module)
    if example.message:
        text = printed(f"{name}{{{options}}}", module)
        return "" if text.split() == example.message.split() else f"The message is:\n\n{text}"
    (pass_,) = build_pipeline([PassRequest(name, options)], CERAS_UNIVERSE.all_passes)
    pass_.apply(load_context(), module)
    module.verify()
    expected = network(example.after, inputs)
    expected.verify()
    dce(module)
    dce(expected)
    if not (reason := difference(module, expected)):
        return ""
    text = block_text(module, is_wrapped="@main" not in example.before)
    return f"{reason}. After the pass, the IR is:\n\n{text}"


def printed(step: str, module: ModuleOp) -> str:
    """Return the text that `ceras-opt` writes to stderr, without the name of the file."""
    file = Path("example.mlir")
    with file.open("w") as stream:
        print_module(module, stream, debuginfo=True)
    with redirect_stderr(StringIO()) as found:
        main([str(file), "-p", step, "-o", "out.mlir"])
    return found.getvalue().replace(f"{file}: ", "")


def save_samples(module: ModuleOp) -> None:
    """Write synthetic samples of the inputs to the file `SAMPLES`."""
    samples = synthetic_samples(main_function(module), SAMPLE_COUNT, seed=0)
    inputs = {name: np.concatenate([sample[name] for sample in samples]) for name in samples[0]}
    np.savez(SAMPLES, allow_pickle=False, **inputs)


def test_each_pass_has_an_example() -> None:
    shown = {
        name
        for name, cls in CLASSES.items()
        if (name, "") in EXAMPLES
        or ((rules := {(name, rule.name) for rule in rules_of(cls)}) and rules <= EXAMPLES.keys())
    }
    changing = {name for name, cls in CLASSES.items() if not issubclass(cls, PipelinePass)}
    missing = changing - shown - NO_EXAMPLE.keys()
    assert not missing, "add an example, or a reason to NO_EXAMPLE"
    assert not shown & NO_EXAMPLE.keys()


def test_help_prints_the_lines_of_an_example() -> None:
    (name, _), example = next(iter(EXAMPLES.items()))
    printed = describe_pass(CLASSES[name])
    assert all(f"  {line}".rstrip() in printed.split("\n") for line in example.before.split("\n"))


BEFORE = "%y = graph.unary <hard_swish, scale 2.0, offset 0.25> %x : tensor<4xf32>"


def test_a_wrong_example_fails_with_the_text_to_paste() -> None:
    problem = effect("split-affine", "", PassExample("", BEFORE, BEFORE))
    assert problem == (
        "The operations, operands or attributes differ. After the pass, the IR is:\n\n"
        "        %y = graph.unary <hard_swish> %x : tensor<4xf32>\n"
        "        %0 = graph.constant dense<2.0> : tensor<1xf32> : tensor<1xf32>\n"
        "        %1 = graph.constant dense<0.25> : tensor<1xf32> : tensor<1xf32>\n"
        "        %2 = graph.binary mul %y, %0 : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>\n"
        "        %y_1 = graph.binary add %2, %1 : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>"
    )


def test_a_wrong_message_fails_with_the_text_to_paste(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = '%y = graph.unary <relu> %x {mem.device = #mem.device<cpu>} : tensor<2xf32> loc("y")'
    right, wrong = (
        PassExample("", before, "", f"y (graph.{x}) on the cpu") for x in ("unary", "y")
    )
    assert effect("explain", "", right) == ""
    assert effect("explain", "", wrong) == f"The message is:\n\n{right.message}\n"


def test_an_example_with_other_types_fails() -> None:
    before = (
        "%a = graph.reshape %x : (tensor<2xf32>) -> tensor<2x1xf32>\n"
        "%y = graph.reshape %a : (tensor<2x1xf32>) -> tensor<2xf32>"
    )
    after = before.replace("2x1", "1x2")
    assert effect("split-affine", "", PassExample("", before, before)) == ""
    assert "types of results differ" in effect("split-affine", "", PassExample("", before, after))
