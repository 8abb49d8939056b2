"""Parse, run and compile a dialect from a file that is not installed."""

from pathlib import Path

import numpy as np
import pytest
from c_harness import compiled, place
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from ceras_ir.backends.c.emitter import emit
from ceras_ir.backends.c.machines import COptions
from ceras_ir.interpreters.network import run, run_in_arena
from ceras_ir.pipeline.context import load_context, plugins
from ceras_ir.support.diagnostics import UnsupportedError

EXAMPLE = Path(__file__).parents[2] / "examples/plugin/scale_add.py"
NETWORK = """
func.func @main(%a: tensor<3x5xf32> {graph.name = "a"}, %b: tensor<3x5xf32> {graph.name = "b"})
    -> (tensor<3x5xf32> {graph.name = "y"}) {
  %c = graph.unary <exp> %a : tensor<3x5xf32>
  %d = toy.scale_add %c, %b {factor = 0.3 : f32}
    : tensor<3x5xf32>, tensor<3x5xf32> -> tensor<3x5xf32>
  %e = graph.unary <relu> %d : tensor<3x5xf32>
  func.return %e : tensor<3x5xf32>
}
"""


def network(plugin: Path = EXAMPLE) -> ModuleOp:
    with plugins([f"--load-dialect-plugin={plugin}"]):
        return Parser(load_context(), NETWORK).parse_module()


def test_a_plugin_brings_meaning_and_printer():
    module = network()
    rng = np.random.default_rng(0)
    inputs = {name: rng.normal(size=(3, 5)).astype(np.float32) for name in "ab"}
    expected = run(module, inputs)["y"]
    alone = run(network(), {"a": inputs["a"], "b": np.zeros((3, 5), np.float32)})["y"]
    np.testing.assert_allclose(
        np.asarray(alone, np.float32), np.float32(0.3) * np.exp(inputs["a"]), rtol=1e-6
    )
    place(module, io=True)
    np.testing.assert_array_equal(run_in_arena(module, inputs)["y"], expected)
    for vectors in (True, False):
        model = compiled(place(network()), options=COptions(vectors=vectors))
        np.testing.assert_array_equal(model.run(inputs)["y"], expected)


def test_without_a_printer_the_operation_is_refused(tmp_path: Path):
    silent = tmp_path / "silent_plugin.py"
    text = EXAMPLE.read_text(encoding="utf-8").replace("@prints(ScaleAddOp)\n", "")
    silent.write_text(text, encoding="utf-8")
    with pytest.raises(UnsupportedError, match=r"no C for 'toy\.scale_add'"):
        emit(place(network(silent)), COptions())
