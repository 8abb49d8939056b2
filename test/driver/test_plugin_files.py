"""Load plugins of several files with commands, also in worker processes."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Tool

EXAMPLES = Path(__file__).parents[2] / "examples"
BLOCK = EXAMPLES / "block.mlir"
SUM = EXAMPLES / "plugin/scale_add.mlir"

PASS = """
from dataclasses import dataclass
from xdsl.passes import ModulePass
from helper import SHOWN

@dataclass(frozen=True)
class ShowPass(ModulePass):
    name = "show"

    def apply(self, ctx, op):
        from helper import SHOWN as again
        assert SHOWN is again
        print(SHOWN)
"""
SHOW = ("--show", "-o", "/dev/null")

TARGET = """
from dataclasses import dataclass
from ceras_ir.network.artefacts import Artefact
from ceras_ir.targets import PLACED, Emission, Stage, Target
from ceras_ir.transforms.placement import PlacePass
from machine import FILE, Machine

@dataclass(frozen=True)
class EchoTarget(Target):
    name = "echo"
    passes = {"print-name": "extra:PrintNamePass"}
    text = "extra:Text"

    def lower(self):
        return [Stage(PLACED, (PlacePass("echo"),))]

    def emit(self, module, title):
        return Emission([Artefact.of_text(FILE, "the network", str(module))])

    def open(self, folder, manifest):
        return Machine(folder)
"""

MACHINE = """
from ceras_ir.interpreters.network import run
from ceras_ir.pipeline.parsing import read_network

FILE = "net.mlir"

class Machine:
    def __init__(self, folder):
        self.module = read_network(str(folder / FILE))

    def run(self, samples):
        for sample in samples:
            yield run(self.module, sample)

    def trace(self, sample, trace):
        pass
"""

EXTRA = """
from dataclasses import dataclass
from xdsl.passes import ModulePass
from xdsl.utils.target import Target

class PrintNamePass(ModulePass):
    name = "print-name"

    def apply(self, ctx, op):
        print("the pass of the target")

@dataclass(frozen=True)
class Text(Target):
    name = "echo"

    def emit(self, ctx, module, output):
        print("the text of the target", file=output)
"""


@pytest.fixture
def plugin(tmp_path: Path) -> Path:
    """Write the files of a pass, a target and a dialect into a folder."""
    folder = tmp_path / "plugin"
    folder.mkdir()
    files = {"show": PASS, "helper": "SHOWN = 'seven'\n", "target": TARGET}
    for name, text in {**files, "machine": MACHINE, "extra": EXTRA}.items():
        (folder / f"{name}.py").write_text(text)
    dialect = (EXAMPLES / "plugin/scale_add.py").read_text()
    factor = "np.float32(op.factor.value.data)"
    assert factor in dialect
    dialect = dialect.replace(factor, "factor_of(op)")
    dialect = dialect.replace("@irdl", "from factors import factor_of\n\n\n@irdl", 1)
    (folder / "dialect.py").write_text(dialect)
    factors = "import numpy as np\n\n\ndef factor_of(op):\n"
    (folder / "factors.py").write_text(f"{factors}    return np.float32(op.factor.value.data)\n")
    x = np.random.default_rng(0).normal(size=(100, 3, 5)).astype(np.float32)
    np.savez(tmp_path / "sum.npz", x=x)
    return folder


def test_a_pass_of_two_files(tool: Tool, plugin: Path):
    (plugin.parent / "helper.py").write_text("raise ValueError('the current folder')\n")
    done = tool("ceras-opt", BLOCK, "--load-pass-plugin=plugin/show.py", *SHOW)
    assert (done.status, done.stdout, done.stderr) == (0, "seven\n", "")


def test_no_code_of_the_current_folder_is_imported(tool: Tool, plugin: Path):
    (plugin / "helper.py").rename(plugin.parent / "helper.py")
    done = tool("ceras-opt", BLOCK, "--load-pass-plugin=plugin/show.py", *SHOW)
    assert done.status == 1
    message = "plugin/show.py:4:1: error: ModuleNotFoundError: No module named 'helper'"
    assert done.stderr.splitlines() == [message]


def test_plugins_with_files_of_equal_names(tool: Tool, plugin: Path):
    other = plugin.parent / "other"
    other.mkdir()
    text = PASS.replace('"show"', '"show-other"')
    (other / "show.py").write_text(text)
    (other / "helper.py").write_text("SHOWN = 'eight'\n")
    options = (f"--load-pass-plugin={folder}/show.py" for folder in ("plugin", "other"))
    done = tool("ceras-opt", BLOCK, *options, "--show-other", *SHOW)
    assert (done.status, done.stdout) == (0, "eight\nseven\n"), done.stderr


@pytest.mark.parametrize("option", ["plugin", "plugin/", "plugin/__init__.py"])
def test_a_folder(tool: Tool, plugin: Path, option: str):
    (plugin / "__init__.py").write_text("from .show import ShowPass\n")
    done = tool("ceras-opt", BLOCK, f"--load-pass-plugin={option}", *SHOW)
    assert (done.status, done.stdout) == (0, "seven\n"), done.stderr


def test_help_has_the_name_of_the_file(tool: Tool, plugin: Path):
    (plugin / "__init__.py").write_text("from .show import ShowPass\n")
    (plugin / "show.py").write_text(PASS.replace("@dataclass(frozen=True)\n", ""))
    done = tool("ceras-opt", "--load-pass-plugin=plugin", "--help-pass=show")
    assert "pass without description (class ShowPass of plugin.show)" in done.stdout, done.stderr


def test_a_syntax_error_has_the_source_line(tool: Tool, plugin: Path):
    (plugin / "show.py").write_text("x = 1\ny = = 2\n")
    done = tool("ceras-opt", BLOCK, "--load-pass-plugin=plugin/show.py")
    message = "plugin/show.py:2:5: error: SyntaxError: invalid syntax\ny = = 2\n    ^\n"
    assert (done.status, done.stderr) == (1, message)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("helper.py", "x = 1\nx / 0\n", "plugin/helper.py:2:1: error: ZeroDivisionError: "),
        (
            "helper.py",
            "x = 1\ny = = 2\n",
            "plugin/helper.py:2:5: error: SyntaxError: invalid syntax\ny = = 2\n    ^\n",
        ),
        (
            "helper.py",
            "if x:\n    f(a b)\n",
            "invalid syntax. Perhaps you forgot a comma?\n    f(a b)\n      ^^^\n",
        ),
        ("helper.py", "x = (\n", "plugin/helper.py:1:5: error: SyntaxError: '(' was never closed"),
        ("helper.py", "x = 'é\n", "plugin/helper.py:1:5: error: SyntaxError: unterminated"),
        (
            "helper.py",
            "from . import no\n",
            "plugin/helper.py:1:1: error: ImportError: cannot import name 'no' from '.'",
        ),
        ("helper.py", "import machine.no\n", "No module named 'machine.no'; 'machine' is"),
    ],
)
def test_an_error_in_another_file(tool: Tool, plugin: Path, name: str, text: str, message: str):
    (plugin / name).write_text(text)
    done = tool("ceras-opt", BLOCK, "--load-pass-plugin=plugin/show.py", *SHOW)
    assert done.status == 1
    assert message in done.stderr and "ceras_plugin" not in done.stderr


def test_a_folder_without_code_is_refused(tool: Tool, plugin: Path):
    done = tool("ceras-opt", BLOCK, "--load-pass-plugin=plugin", *SHOW)
    assert done.status == 1
    assert done.stderr.startswith("plugin: error: has no __init__.py: add it, or name a Python")


def test_a_target_names_passes_and_text_of_other_files(tool: Tool, plugin: Path):
    option = "--load-target-plugin=plugin/target.py"
    done = tool("ceras-opt", BLOCK, option, "--print-name", "-t", "echo")
    assert done.status == 0, done.stderr
    assert done.stdout == "the pass of the target\nthe text of the target\n"


@pytest.mark.slow
def test_workers_load_plugins(tool: Tool, plugin: Path):
    options = (
        "--load-target-plugin=plugin/target.py",
        "--load-dialect-plugin=plugin/dialect.py",
        *("--targets", "c,echo", "--inputs", "sum.npz", "--samples", "40", "--quantize", "none"),
    )
    done = [tool("ceras-verify", SUM, *options, *workers) for workers in ((), ("--workers", "2"))]
    assert done[0].status == 0, done[0].stderr
    assert "echo: machine                    exact" in done[0].stdout
    assert (done[1].status, done[1].stdout) == (0, done[0].stdout), done[1].stderr


@pytest.mark.slow
def test_calibration_processes_load_plugins(tool: Tool, plugin: Path):
    options = ("--load-dialect-plugin=plugin/dialect.py", "--target", "c", "--quantize", "int8")
    calibrate = ("--calibrate", "sum.npz", "--calibration-samples", "100", "--calibration-jobs")
    for jobs in ("1", "2"):
        done = tool("ceras-compile", SUM, *options, *calibrate, jobs, "-o", f"out{jobs}")
        assert done.status == 0, done.stderr
    code = [(plugin.parent / f"out{jobs}/model.c").read_text() for jobs in "12"]
    assert "scale_add" in code[0] and code[0] == code[1]


def test_a_cluster_loads_no_plugins(tool: Tool, plugin: Path):
    options = ("--load-pass-plugin=plugin/show.py", "--inputs", "sum.npz")
    done = tool("ceras-verify", SUM, *options, "--scheduler", "tcp://localhost:1")
    assert done.status == 2
    assert "workers of a cluster cannot load plugins: remove --load-pass-plugin" in done.stderr
