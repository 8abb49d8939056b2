"""Conditions of IF that are constants or inputs, and branches with states."""

from pathlib import Path

import numpy as np
import pytest
from tflite_cases import CASES, Network
from tflite_files import FileModel, Option

from ceras_ir.frontends.tflite import import_file
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import input_names, main_function
from ceras_ir.support.diagnostics import InputError, UnsupportedError

ADD: list[Option] = [(0, "Int8", 0)]


def saved(model: FileModel, folder: Path) -> str:
    path = folder / "branch.tflite"
    path.write_bytes(model.data())
    return str(path)


def layer(name: str) -> FileModel:
    """Return a branch with a layer whose memory is kept."""
    n = Network(name, "float32")
    x, y, memory = n.input(2, 6), n.value(2, 6), n.value(2, 12)
    n.model.tensors[memory].is_variable = True
    weights, filters = n.weights(6, 6)[0], n.weights(6, 2)[0]
    n.model.add("SVDF", [x, weights, filters, -1, memory], y, [(0, "Int32", 1), (1, "Int8", 0)])
    return n.done(y)


def sums(name: str) -> FileModel:
    n = Network(name, "float32")
    x, y = n.input(2, 6), n.value(2, 6)
    n.model.add("ADD", [x, x], y, ADD)
    return n.done(y)


def network(then: FileModel, other: FileModel) -> FileModel:
    """Return a network with an IF on the inputs `condition` and `x1`."""
    n = Network("outer", "float32")
    condition = n.model.input("condition", (), "bool")
    x, y = n.input(2, 6), n.value(2, 6)
    n.model.branches += [then, other]
    n.model.add("IF", [condition, x], y, [(0, "Int32", 1), (1, "Int32", 2)])
    return n.done(y)


def test_a_condition_can_be_fixed(tmp_path: Path) -> None:
    path = saved(CASES["computed_branch_float32"](), tmp_path)
    x = np.random.default_rng(0).normal(size=(2, 6)).astype(np.float32)
    for value, wanted in ((1, x + x), (0, x * x)):
        module = import_file(path, values={"condition": [value]})
        (name,) = input_names(main_function(module))
        (found,) = run(module, {name: x}).values()
        np.testing.assert_array_equal(found, wanted)


def test_a_state_in_a_branch(tmp_path: Path) -> None:
    """A state changes only if its branch is taken, so the condition must be known."""
    path = saved(network(layer("memory"), sums("sum")), tmp_path)
    with pytest.raises(UnsupportedError, match="fix the condition 'condition' with --set"):
        import_file(path)
    assert len(input_names(main_function(import_file(path, values={"condition": [1]})))) == 2
    assert len(input_names(main_function(import_file(path, values={"condition": [0]})))) == 1


def test_branches_of_different_shapes(tmp_path: Path) -> None:
    other = sums("other")
    other.tensors[1].shape = (6, 2)
    other.operators[0].name = "RESHAPE"
    other.operators[0].inputs = [0]
    other.operators[0].options = ()
    with pytest.raises(UnsupportedError, match="results have different shapes or types"):
        import_file(saved(network(sums("sum"), other), tmp_path))


def test_a_branch_without_end(tmp_path: Path) -> None:
    """The branch of a damaged file is the network that contains it."""
    model = network(sums("sum"), sums("other"))
    condition, x = model.inputs
    model.operators[0].inputs = [condition, condition, x]
    model.operators[0].options = [(0, "Int32", 0), (1, "Int32", 0)]
    with pytest.raises(InputError, match="more than 16 branches in each other"):
        import_file(saved(model, tmp_path))


def test_too_many_branches(tmp_path: Path) -> None:
    """Each of 12 subgraphs has two IFs of the next, which would be 2^24 branches."""
    model = network(sums("sum"), sums("other"))
    condition, x = model.inputs
    model.branches = [network(sums("a"), sums("b")) for _ in range(12)] + [sums("last")]
    for i, each in enumerate((model, *model.branches[:-1]), 1):
        (branch,) = each.operators
        branch.inputs = [condition, *([condition, x] if i < 13 else [x])]
        branch.options = [(0, "Int32", i), (1, "Int32", i)]
        each.branches = model.branches if each is model else []
    with pytest.raises(InputError, match="more than 1024 branches"):
        import_file(saved(model, tmp_path))
