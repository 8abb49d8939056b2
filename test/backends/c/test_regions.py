"""Test target c with several memories: sizes are respected, and results are equal."""

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
from backends.c.test_workspace import hourglass
from c_harness import compiled, random_inputs
from slow_cases import first_fast
from xdsl.context import Context

from ceras_ir.backends.c.emitter import build
from ceras_ir.backends.c.machines import COptions
from ceras_ir.driver.compile import main
from ceras_ir.interpreters.network import run
from ceras_ir.support.diagnostics import InputError
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


@pytest.mark.parametrize(
    "regions", first_fast(1, [("A:9300", "B:9300", "C:40000"), ("fast:20000", "slow:100000")])
)
def test_results_are_the_interpreters(regions: tuple[str, ...]):
    module = hourglass()
    inputs = random_inputs(module)
    expected = run(module, inputs)
    AllocateBlocksPass(regions=regions).apply(Context(), module)
    options = COptions(workspace=1 << 10)
    sizes = build(module, options).region_bytes
    for text in regions:
        name, capacity = text.split(":")
        assert 1 <= sizes[name] <= int(capacity)
    for name, array in compiled(module, options=options).run(inputs).items():
        np.testing.assert_array_equal(array, expected[name])


def test_no_room_to_work_in():
    module = hourglass()
    AllocateBlocksPass(regions=("only:20000",)).apply(Context(), module)
    with pytest.raises(InputError, match="no region has room for the"):
        _ = build(module, COptions(workspace=1 << 14)).region_bytes


@pytest.mark.needs("nnet", "vta", "workbench")
@pytest.mark.slow
def test_a_compiled_network_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    data = str(DIGITS / "digits_calibration.npz")
    command = [str(DIGITS / "digits.onnx"), "--target", "c", "--calibrate", data, "--report"]
    command += ["--regions", "sram:1200,psram:8388608", "-o", str(tmp_path)]
    assert main(command) == 0
    report = json.loads((tmp_path / "report.json").read_text())
    drawn = sum(region["size"] for region in report["memory"]["regions"])
    assert drawn == report["memory"]["size"] == report["totals"]["arena_bytes"]
    totals = report["totals"]["regions"]
    assert 0 < totals["sram"]["peak_bytes"] <= totals["sram"]["capacity_bytes"] == 1200
    picture = (tmp_path / "report.html").read_text()
    assert "sram: " in picture and " of psram [" in picture
    section = '-DMODEL_SECTION_SRAM=__attribute__((section(".fast")))'
    subprocess.run(
        ["cc", "-std=c99", "-Wall", "-Wextra", "-Werror", section, "-S", "model.c"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    assert ".fast" in (tmp_path / "model.s").read_text()
    capsys.readouterr()
    for target in ("nnet", "arduino", "vta"):
        command[2] = target
        assert main(command) == 2
        assert f"--regions is an option of target c, not {target}" in capsys.readouterr().err
