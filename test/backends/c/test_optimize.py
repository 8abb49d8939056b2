"""Goals of `--optimize` differ as documented, and each build computes the same integers."""

import json
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
from c_harness import Array, needs_arm
from xdsl.utils.hints import isa

from ceras_ir.backends.arduino.target import ArduinoTarget
from ceras_ir.backends.c.costs import Footprint, model_cycles
from ceras_ir.backends.c.emitter import files_of
from ceras_ir.backends.c.emulator import EmulatedModel
from ceras_ir.backends.c.machines import COptions, load_board
from ceras_ir.backends.c.names import Goal
from ceras_ir.backends.c.optimize import LEVELS, Candidate, Choice, choose, curve, select
from ceras_ir.backends.c.target import CTarget
from ceras_ir.driver.compile import main as ceras_compile
from ceras_ir.interpreters.network import run
from ceras_ir.network.artefacts import network_inputs, network_outputs
from ceras_ir.network.function import main_function
from ceras_ir.pipeline.build import Build, build
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.report import Entry
from ceras_ir.pipeline.stages import BuildOptions

DIGITS = Path(__file__).parents[3] / "examples/digits"
BOARD = "nano_33_ble"
GOALS: tuple[Goal, ...] = get_args(Goal)


@pytest.fixture(scope="module")
def digits() -> Build:
    calibration = str(DIGITS / "digits_calibration.npz")
    options = BuildOptions(CTarget(board=BOARD), calibration=calibration, io="int8")
    return build(read_network(str(DIGITS / "digits.onnx")), options)


def chosen(digits: Build, goal: Goal, board: str = BOARD) -> Choice:
    return choose(digits.module, load_board(board), "model", goal=goal, levels=LEVELS)


def test_goals_are_ordered(digits: Build):
    choice = chosen(digits, "speed")
    size, balanced, speed = (choice.goals[goal] for goal in GOALS)
    assert size.flash < balanced.flash < speed.flash
    assert size.cycles > balanced.cycles > speed.cycles
    assert not size.options.stored_filters and speed.options.stored_filters
    assert (size.options.level, speed.options.level) == ("-Os", "-O3")
    # Transformed filters are more than half of the flash of the fastest build.
    assert balanced.flash < 0.55 * speed.flash


def candidate(digits: Build, flash: int, cycles: float) -> Candidate:
    choice = chosen(digits, "size")
    footprint = choice.footprint
    sized = type(footprint)(footprint.board, [], flash, 0, 0, 0)
    return Candidate(choice.model, COptions(), sized, cycles)


def test_balanced_keeps_both_limits_or_is_the_knee(digits: Build):
    def of(flash: int, cycles: float) -> Candidate:
        return candidate(digits, flash, cycles)

    small, fast = of(100, 1000.0), of(400, 100.0)
    within, knee = of(130, 110.0), of(150, 150.0)
    # Its product is smaller, but it is slower than the limit.
    cheap = of(101, 120.0)
    assert select([small, fast, within, cheap], "balanced") is within
    assert select([small, fast, knee], "balanced") is knee
    assert select([small, fast, within], "size") is small
    assert select([small, fast, within], "speed") is fast
    assert curve([fast, of(401, 100.0), within, small]) == [small, within, fast]


def test_curve_has_no_build_that_another_one_dominates(digits: Build):
    points = chosen(digits, "balanced").candidates
    assert len(points) > 3
    for before, after in pairwise(points):
        assert before.flash < after.flash and before.cycles > after.cycles


def test_a_network_without_special_kernels_says_so(digits: Build):
    """A Cortex-M0+ has no DSP extension, and the Arduino IDE has a single optimization level."""
    choice = choose(digits.module, load_board("pico"), "model")
    (line,) = choice.lines()
    assert line.startswith("--optimize has no effect here")


@needs_arm
@pytest.mark.slow
@pytest.mark.parametrize("goal", GOALS)
def test_each_goal_computes_the_integers_of_the_interpreter(
    digits: Build, goal: Goal, tmp_path: Path
):
    """Flash and instructions are near the prediction, too."""
    choice, main = chosen(digits, goal), main_function(digits.module)
    for artefact in files_of(choice.model):
        with open(tmp_path / artefact.path, "wb") as stream:
            artefact.write(stream)
    (tmp_path / "work").mkdir()
    ends = network_inputs(main), network_outputs(main)
    model = EmulatedModel(
        sorted(tmp_path.glob("model*.c")),
        *ends,
        choice.footprint.board,
        tmp_path / "work",
        flags=(choice.model.options.level,),
    )
    rng = np.random.default_rng(3)
    samples: list[dict[str, Array]] = [
        {t.name: rng.integers(-128, 128, t.shape).astype(t.dtype) for t in ends[0]}
        for _ in range(2)
    ]
    samples.append({t.name: np.full(t.shape, -128, t.dtype) for t in ends[0]})
    for result, sample in zip(model.run(samples), samples, strict=True):
        for name, expected in run(digits.module, sample).items():
            assert np.array_equal(result[name], expected)
    assert model.instructions[0] == pytest.approx(choice.goals[goal].cycles, rel=0.2)


def compiled(folder: Path, *options: str) -> Entry:
    arguments = [str(DIGITS / "digits.onnx"), "-o", str(folder), "--quantize", "int8", *options]
    data = ["--calibrate", str(DIGITS / "digits_calibration.npz")]
    assert ceras_compile([*arguments, *data]) == 0
    return json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("target", ["c", "arduino"])
def test_the_report_and_stdout_have_all_goals(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    report = compiled(tmp_path / "a", "--target", target, "--board", BOARD, "--optimize", "size")
    text = capsys.readouterr().out
    assert re.search(r"^  size +[\d,]+ +[\d.,]+ ms  -Os, selected$", text, re.MULTILINE)
    assert re.search(r"^  speed +[\d,]+ +[\d.,]+ ms  -O[s23]$", text, re.MULTILINE)
    optimize, totals = report["optimize"], report["totals"]
    assert isa(optimize, Entry) and isa(totals, Entry)
    assert optimize["selected"] == "size"
    goals = optimize["goals"]
    assert isa(goals, dict[str, Entry]) and set(goals) == set(GOALS)
    assert goals["size"]["flash_bytes"] == totals["flash_bytes"]


def test_options_of_the_targets_default_to_balanced():
    assert CTarget().optimize == ArduinoTarget().optimize == "balanced"


@pytest.mark.parametrize(("goal", "level"), [("size", "-Os"), ("balanced", "-O3")])
def test_build_files_of_a_computer(goal: str, level: str, tmp_path: Path):
    compiled(tmp_path / "a", "--target", "c", "--optimize", goal)
    assert f"CFLAGS ?= {level} " in (tmp_path / "a/Makefile").read_text()
    assert f'"{level} ${{CMAKE_C_FLAGS}}"' in (tmp_path / "a/CMakeLists.txt").read_text()


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cmake") is None, reason="needs cmake")
@pytest.mark.parametrize(
    ("build_type", "level"),
    [("MinSizeRel", "-Os"), ("Release", "-O3"), ("Debug", "-g"), ("", "-O3")],
)
def test_cmake_respects_the_build_type(build_type: str, level: str, tmp_path: Path):
    """A single optimization level is in the command, the one of the build type."""
    compiled(tmp_path / "a", "--target", "c")
    command = [
        "cmake",
        "-S",
        tmp_path / "a",
        "-B",
        tmp_path / "b",
        f"-DCMAKE_BUILD_TYPE={build_type}",
    ]
    subprocess.run(
        [*command, "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON"], check=True, capture_output=True
    )
    commands = json.loads((tmp_path / "b/compile_commands.json").read_text())
    flags = next(c["command"] for c in commands if c["file"].endswith("model.c")).split()
    assert level in flags
    assert sum(flag.startswith("-O") for flag in flags) == (build_type != "Debug")


def test_the_costs_of_a_goal_are_those_of_its_build(digits: Build):
    """The table of any goal has the flash and the time of the builds of all goals."""
    builds = {goal: chosen(digits, goal) for goal in GOALS}
    for goal in GOALS:
        build_of_goal = builds[goal]
        footprint = Footprint.of(build_of_goal.model, load_board(BOARD))
        level = build_of_goal.model.options.level
        cycles = model_cycles(build_of_goal.model, load_board(BOARD), level)
        for other in builds.values():
            assert other.goals[goal].flash == footprint.flash
            assert other.goals[goal].cycles == cycles
