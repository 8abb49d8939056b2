"""Check that states of selected steps are computed a single time for a network and samples."""

from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from ceras_ir.dialects import graph
from ceras_ir.interpreters import network
from ceras_ir.network.function import main_function
from ceras_ir.network.storage import set_range
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.transforms.quantization.analysis.kept_states import KeptStates
from ceras_ir.transforms.quantization.set_precision import insert_copies
from ceras_ir.transforms.rebuilding import replace_constant

NUMBERS = 1, 3

TEXT = """
!t = tensor<1x1xf32>
func.func @main(%x: !t {graph.name = "x"}, %s: !t {graph.name = "s", graph.state = "n"})
    -> (!t {graph.name = "n"}) {
  %w = graph.constant dense<[[0.5]]> : !t : !t
  %a = graph.matmul %s, %w : (!t, !t) -> !t
  %y = graph.binary add %a, %x : (!t, !t) -> !t
  func.return %y : !t
}
"""


def module() -> ModuleOp:
    return parse_text(load_context(), TEXT, "n.mlir")


def states(
    kept: KeptStates, of: ModuleOp, rows: NDArray[np.float32], numbers: tuple[int, ...] = NUMBERS
) -> list[float]:
    def steps() -> Iterator[dict[str, NDArray[np.float32]]]:
        return ({"x": row.reshape(1, 1)} for row in rows[: numbers[-1] + 1])

    return [float(known["s"].item()) for known in kept.with_states(of, steps, numbers)]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that grows with each step of a network."""
    found: list[int] = []
    step = network.Sequence.step

    def counted(*arguments: object) -> object:
        found.append(1)
        return step(*arguments)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(network.Sequence, "step", counted)
    return found


ROWS = np.array([1, 2, 4, 8, 16], np.float32)


def test_later_passes_run_no_step(runs: list[int]) -> None:
    kept, net = KeptStates(), module()
    assert states(kept, net, ROWS) == [1.0, 5.25]
    count = len(runs)
    set_range(main_function(net).body.block.args[0], 0.0, 4.0)
    insert_copies(main_function(net), of_products=True)
    assert states(kept, net, ROWS) == [1.0, 5.25]
    assert states(kept, net, ROWS, NUMBERS[:1]) == [1.0]
    assert len(runs) == count == 3


def test_other_samples_and_weights_run_again(runs: list[int]) -> None:
    kept, net = KeptStates(), module()
    assert states(kept, net, ROWS) == [1.0, 5.25]
    assert states(kept, net, 2 * ROWS) == [2.0, 10.5]
    (layer,) = (op for op in net.walk() if isinstance(op, graph.MatmulOp))
    replace_constant(layer, layer.weights, np.ones((1, 1), np.float32))
    assert states(kept, net, 2 * ROWS) == [2.0, 14.0]
    assert len(runs) == 9


def test_a_pass_that_stops_keeps_nothing(runs: list[int]) -> None:
    kept, net = KeptStates(), module()
    steps = kept.with_states(net, lambda: ({"x": row.reshape(1, 1)} for row in ROWS), NUMBERS)
    assert next(steps)["s"].item() == 1.0
    steps.close()
    assert states(kept, net, ROWS) == [1.0, 5.25]
    assert len(runs) == 4
