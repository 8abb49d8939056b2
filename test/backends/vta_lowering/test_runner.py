"""
External programs execute launches. The tests cover the contract and all errors of the programs.
"""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
from backends.vta_lowering.cosimulation import run_on_vta
from backends.vta_lowering.layers import Layer, check_all_levels, random_array

from ceras_ir.backends.vta.execution.image import VtaImage
from ceras_ir.backends.vta.execution.runner import VtaRunner
from ceras_ir.support.diagnostics import InputError, UsageError

SIMULATOR = """
import sys, json
import numpy as np
from ceras_ir.backends.vta.machine.board import load_board
from ceras_ir.backends.vta.machine.simulator import simulate
config, dram, insns, out = sys.argv[1:]
assert json.load(open(config))["LOG_BLOCK"] == 4
image = np.fromfile(dram, np.uint8)
simulate(image, open(insns, "rb").read(), load_board("tsim"))
image.tofile(out)
"""


@pytest.fixture(name="layer")
def _layer() -> Layer:
    rng = np.random.default_rng(0)
    return Layer(random_array(rng, (3, 20)), random_array(rng, (18, 20)))


@pytest.fixture(name="image")
def _image(layer: Layer) -> VtaImage:
    return check_all_levels(layer.module(), layer.inputs, layer.expected())


def script(folder: Path, text: str) -> str:
    """Return a command template that runs `text` as a Python program."""
    path = folder / "runner with spaces.py"
    path.write_text(text)
    return f"'{sys.executable}' '{path}' {{config}} {{dram}} {{insns}} {{out}}"


@pytest.mark.slow
def test_external_simulator(tmp_path: Path, layer: Layer, image: VtaImage):
    result = run_on_vta(image, layer.inputs, script(tmp_path, SIMULATOR))
    np.testing.assert_array_equal(result["output0"], layer.expected())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.exit('boom')", "failed on launch 0 with exit status 1: boom"),
        ("import sys; sys.exit(3)", "failed on launch 0 with exit status 3"),
        ("pass", "wrote no image for launch 0"),
        ("import sys; open(sys.argv[4], 'w').write('abc')", "wrote 3 bytes for launch 0, expected"),
    ],
)
def test_failing_program(tmp_path: Path, layer: Layer, image: VtaImage, program: str, message: str):
    with pytest.raises(InputError) as error:
        run_on_vta(image, layer.inputs, script(tmp_path, program))
    assert message in error.value.message
    assert "\n" not in error.value.message


def test_missing_program(layer: Layer, image: VtaImage):
    with pytest.raises(InputError, match="cannot run the VTA runner '/no/such/program': No such"):
        run_on_vta(image, layer.inputs, "/no/such/program {config} {dram} {insns} {out}")


@pytest.mark.parametrize(
    ("command", "message"),
    [("vta {dram} {insns}", "has no {out}"), ("vta '{dram} {insns} {out}", "No closing quotation")],
)
def test_malformed_command(image: VtaImage, command: str, message: str):
    with pytest.raises(UsageError, match=message):
        VtaRunner([], image.board, command)


def test_configuration_is_a_board(tmp_path: Path, layer: Layer, image: VtaImage):
    """The program receives the JSON format of VTA, with all sizes."""
    copy = tmp_path / "seen.json"
    text = f"import shutil, sys; shutil.copy(sys.argv[1], {str(copy)!r}); sys.exit(1)"
    with pytest.raises(InputError):
        run_on_vta(image, layer.inputs, script(tmp_path, text))
    assert json.loads(copy.read_text()) == image.board.config()
