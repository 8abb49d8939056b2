"""Compare estimates of resources with stored counts of yosys, and two circuits with new counts."""

import json
import re
import subprocess
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from dataflow_circuits import convolution, max_pool, plan_of, write_circuit
from dataflow_samples import TERMS_SEEDS, counted, sample

from ceras_ir.backends.dataflow.blocks import Feature, Pipeline, Source
from ceras_ir.backends.dataflow.board import CHIP_FAMILIES, load_board
from ceras_ir.backends.dataflow.circuit import Circuit
from ceras_ir.backends.dataflow.plan import BlockLanes
from ceras_ir.backends.dataflow.resources import (
    NETLIST_FILE,
    NEXTPNR,
    YOSYS,
    OpenTool,
    Resources,
    count,
    estimate,
    route,
    slowest_clock,
    synthesize,
    total,
)
from ceras_ir.backends.dataflow.weights import WeightEncoding

WITHIN = 0.15
TERMS_WITHIN = 0.25
"""
The permitted error of the tables of circuits with few bits per column, whose buffers at ports are
estimated less exactly.
"""
FEW = 3
"""The permitted error of the multipliers or memories of a small circuit."""


FITTED_VERSION = "0.70"
"""
The version of yosys to which the estimates are fitted. Other versions map circuits differently.
"""


def version_of(text: str) -> str | None:
    """Return the version in the first line that `yosys -V` prints."""
    found = re.match(r"Yosys (\d+\.\d+)", text)
    return None if found is None else found[1]


def installed_version() -> str | None:
    """Return the version of the yosys that `synthesize` runs."""
    command = YOSYS.find()
    assert command is not None
    done = subprocess.run([command, "-V"], capture_output=True, text=True, check=True)
    return version_of(done.stdout)


def assert_near(
    guess: Resources, found: Resources, multipliers: int, version: str | None = None
) -> None:
    """Compare with the counts of the fitted version; skip with the counts of other versions."""
    version = version or installed_version()
    if version != FITTED_VERSION:
        pytest.skip(
            f"estimates are fitted to yosys {FITTED_VERSION}; yosys {version} counts {found}, "
            f"estimated are {guess}"
        )
    assert found.dsp == guess.dsp == multipliers
    for name in ("ram18", "lut"):
        a, b = getattr(guess, name), getattr(found, name)
        assert abs(a - b) <= WITHIN * b, (name, a, b)


@pytest.mark.parametrize("family", sorted(CHIP_FAMILIES))
def test_estimates_are_near_the_kept_counts(family: str):
    """
    Estimates of each kind of circuit are near the counts, and the sum over all is more accurate.
    """
    far: list[object] = []
    sums = np.zeros((2, 3))
    for seed, found in counted()[family].items():
        guess = total(estimate(*sample(seed, family), CHIP_FAMILIES[family]))
        sums += [(r.dsp, r.ram18, r.lut) for r in (guess, found)]
        near = abs(guess.dsp - found.dsp) <= FEW and abs(guess.ram18 - found.ram18) <= FEW
        within = WITHIN if seed < TERMS_SEEDS else TERMS_WITHIN
        if not near or abs(guess.lut - found.lut) > within * found.lut:
            far.append((seed, guess, found))
    assert not far
    assert np.all(np.abs(sums[0] / sums[1] - 1) <= 0.05)


@pytest.mark.slow
@pytest.mark.skipif(YOSYS.find() is None, reason="yosys is missing: install the extra 'rtl'")
def test_the_estimate_is_near(tmp_path: Path):
    rng, board = np.random.default_rng(0), load_board("zcu102")
    source = Source("input", Feature(21, 64, 29))
    layer = convolution(source, 64, (5, 5), rng, padding=(2, 2, 2, 2), zeros=0.941)
    pipeline = Pipeline(source, [layer, max_pool(layer, 3, 2)])
    plan = plan_of(pipeline, {layer: BlockLanes(2, 1, WeightEncoding.COO)})
    write_circuit(Circuit(pipeline, plan), tmp_path, board.port_bytes)
    found = synthesize(tmp_path, board.family)
    guess = total(estimate(pipeline, plan, board.fabric))
    assert_near(guess, found, multipliers=29)


def test_cells_are_counted():
    """
    A RAM36 counts as two memories of 18 kbit, and tables that are memories occupy several sites.
    """
    cells = {"DSP48E2": 3, "RAMB36E2": 2, "RAMB18E2": 1, "LUT6": 5, "RAM64M8": 1, "FDRE": 9}
    text = "a line\n" + json.dumps({"design": {"num_cells_by_type": cells}})
    assert count(text) == Resources(3, 5, 13)


@pytest.mark.slow
@pytest.mark.skipif(YOSYS.find() is None, reason="yosys is missing: install the extra 'rtl'")
@pytest.mark.skipif(NEXTPNR.find() is None, reason="nextpnr is missing: install the extra 'rtl'")
def test_a_circuit_is_routed(tmp_path: Path):
    """
    A small circuit reaches 76.9 MHz; a path as long as two of its stages would halve the frequency.
    """
    rng, board = np.random.default_rng(0), load_board("ecp5-85f")
    source = Source("input", Feature(6, 3, 8))
    layer = convolution(source, 4, (3, 3), rng, padding=(1, 1, 1, 1), spread=3)
    pipeline = Pipeline(source, [layer])
    plan = plan_of(pipeline, {layer: BlockLanes(1, 1, parts=4)}, paired=board.pairs)
    write_circuit(Circuit(pipeline, plan), tmp_path, board.port_bytes)
    found = synthesize(tmp_path, board.family)
    guess = total(estimate(pipeline, plan, board.fabric))
    assert route(tmp_path / NETLIST_FILE, board.nextpnr, board.clock_mhz) > 60
    assert_near(guess, found, multipliers=2)


def test_only_the_fitted_version_is_compared():
    assert version_of("Yosys 0.23 (git sha1 7ce5011c24b)\n") == "0.23"
    assert version_of("Yosys 0.70+12 (git sha1 000000000)\n") == "0.70"
    assert version_of("no version") is None
    far, near = Resources(29, 40, 6870), Resources(29, 40, 5005)
    with pytest.raises(pytest.skip.Exception, match=r"yosys 0\.23 counts .*6870"):
        assert_near(near, far, multipliers=29, version="0.23")
    with pytest.raises(AssertionError):
        assert_near(near, far, multipliers=29, version=FITTED_VERSION)
    assert_near(near, near, multipliers=29, version=FITTED_VERSION)


def test_the_slowest_clock_counts():
    report = {"fmax": {"a": {"achieved": 80.5, "constraint": 60}, "b": {"achieved": 61.25}}}
    assert slowest_clock(json.dumps(report)) == 61.25


def test_a_tool_is_found_beside_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The extra installs the tool next to Python; the environment need not be active."""
    monkeypatch.setenv("PATH", str(tmp_path / "elsewhere"))
    tool = OpenTool("made", ("no-such-tool", "made-tool"))
    assert tool.find() is None
    (tmp_path / "made-tool").write_text("#!/bin/sh\n")
    (tmp_path / "made-tool").chmod(0o755)

    def scripts(name: str) -> str:
        return str(tmp_path)

    monkeypatch.setattr(sysconfig, "get_path", scripts)
    assert tool.find() == str(tmp_path / "made-tool")
