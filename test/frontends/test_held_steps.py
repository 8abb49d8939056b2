"""Test recurrent layers in which a mask keeps the state in skipped steps, as in Keras."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx_compare import agree
from onnx_models import Array, random_inputs
from recurrent_cells import CELLS, HIDDEN, MASKED, SIZE, STEPS, layers, looped, set_constant

import ceras_ir as ceras
from ceras_ir.dialects.graph import Cell

NAMES = [f"{kind} of two products" for kind in ("lstm", "gru", "rnn")]


def marked(proto: onnx.ModelProto, batch: int) -> list[dict[str, Array]]:
    """Draw inputs with skipped steps: all, at the start, at the end, in between, or no steps."""
    step = np.arange(STEPS)[:, None, None] * np.ones((1, batch, 1))
    own = np.arange(batch)[None, :, None]
    masks = [step < 0, step >= 0, step > 2 + own, step < 3 - own, (step + own) % 2 == 0]
    return [random_inputs(proto) | {"marks": mask.astype(np.float32)} for mask in masks]


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("spelling", MASKED)
@pytest.mark.parametrize("name", NAMES)
def test_steps_that_do_not_count_hold_the_state(name: str, spelling: str, batch: int):
    proto = looped(*CELLS[name], batch, spelling=spelling)
    for inputs in marked(proto, batch):
        assert len(layers(agree(proto, inputs))) == 1


@pytest.mark.parametrize("spelling", MASKED)
@pytest.mark.parametrize("shown", ["zeros", "before"])
def test_outputs_of_steps_that_do_not_count(shown: str, spelling: str):
    proto = looped(*CELLS[NAMES[0]], 2, spelling=spelling, shown=shown)
    zeros = np.zeros((2, HIDDEN), np.float32)
    set_constant(proto, "h0", zeros)
    for inputs in marked(proto, 2):
        assert layers(agree(proto, inputs)) == [Cell.LSTM]


def test_an_output_that_starts_otherwise_keeps_a_loop():
    proto = looped(*CELLS[NAMES[0]], spelling="products", shown="before")
    for inputs in marked(proto, 1):
        assert not layers(agree(proto, inputs))


def test_a_cell_state_that_is_read_at_the_end_keeps_a_loop():
    """The cell state belongs to the last unmasked step, which the layer does not return."""
    proto = looped(*CELLS[NAMES[0]], spelling="selections")
    proto.graph.output.append(onnx.helper.make_tensor_value_info("c1", 1, [1, HIDDEN]))
    for inputs in marked(proto, 1):
        assert not layers(agree(proto, inputs))


def test_one_flag_for_a_whole_batch_keeps_a_loop():
    proto = looped(*CELLS["rnn of two products"], 3, spelling="selections")
    proto.graph.input[1].type.tensor_type.shape.dim[1].dim_value = 1
    for inputs in marked(proto, 1):
        assert not layers(agree(proto, inputs))


def test_a_mask_of_columns_keeps_a_loop():
    """The mask has an element for each row."""
    proto = looped(*CELLS["rnn of two products"], HIDDEN, spelling="selections")
    step = proto.graph.node[1].attribute[0].g
    (gather,) = (node for node in step.node if "m" in node.output)
    gather.output[0] = "column"
    turned = onnx.helper.make_node("Transpose", ["column"], ["m"])
    step.node.insert([*step.node].index(gather) + 1, turned)
    for inputs in marked(proto, HIDDEN):
        assert not layers(agree(proto, inputs))


@pytest.mark.slow
def test_targets_compute_the_same_integers(tmp_path: Path):
    """Quantize, and skip random steps."""
    path = tmp_path / "model.onnx"
    path.write_bytes(looped(*CELLS[NAMES[0]], 2, spelling="products").SerializeToString())
    random = np.random.default_rng(4)
    samples = {
        "xs": random.normal(0, 1, (32, STEPS, 2, SIZE)).astype(np.float32),
        "marks": random.choice([0, 1], (32, STEPS, 2, 1)).astype(np.float32),
    }
    model = ceras.load(path)
    for target in [name for name in ("c", "nnet", "vta") if name in ceras.target_names()]:
        quantized = model.quantize(samples, target=target)
        assert ceras.verify(quantized, samples, targets=[target])
