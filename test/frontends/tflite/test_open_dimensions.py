"""Import files whose inputs have open dimensions."""

from pathlib import Path

import pytest
from tflite_cases import Network

from ceras_ir.dialects.graph import shape_of
from ceras_ir.frontends.tflite import import_file
from ceras_ir.network.function import main_function, result_values
from ceras_ir.support.diagnostics import UnsupportedError


@pytest.fixture
def path(tmp_path: Path) -> str:
    """Write a slice of 3 elements of an open dimension."""
    n = Network("open", "float32")
    x, y = n.input(1, 5), n.value(1, 3)
    n.model.tensors[x].signature = (1, -1)
    n.model.tensors[x].shape = (1, 1)
    n.model.add("SLICE", [x, n.integers(0, 0), n.integers(1, 3)], y)
    file = tmp_path / "open.tflite"
    file.write_bytes(n.done(y).data())
    return str(file)


def test_the_message_names_the_option(path: str):
    with pytest.raises(UnsupportedError, match="set the shape of 'x0' with --shape"):
        import_file(path)


def test_a_given_shape_is_used(path: str):
    main = main_function(import_file(path, shapes={"x0": (1, 5)}))
    assert shape_of(main.body.block.args[0]) == (1, 5)
    assert shape_of(result_values(main)[0]) == (1, 3)
