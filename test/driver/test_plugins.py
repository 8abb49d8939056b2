"""Load all three kinds of plugins in four tools, and run passes after a level."""

import json
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from conftest import Result, Tool
from slow_cases import slow

from ceras_ir.command.entry_point import commands

EXAMPLES = Path(__file__).parents[2] / "examples"
POOLS = EXAMPLES / "plugin/pools.mlir"
SINK = f"--load-pass-plugin={EXAMPLES / 'plugin/sink_lookup.py'}"
SWAP = f"--load-pass-plugin={EXAMPLES / 'plugin/swap_function.py'}"
DIALECT = f"--load-dialect-plugin={EXAMPLES / 'plugin/scale_add.py'}"

CLAMP = """
from dataclasses import dataclass
from xdsl.dialects.builtin import IntAttr
from xdsl.passes import ModulePass
from ceras_ir.dialects.graph import Conv2dOp

@dataclass(frozen=True)
class NarrowPass(ModulePass):
    '''Shift every convolution by more.'''

    name = "narrow"
    by: int = 1

    def apply(self, ctx, op):
        for conv in op.walk():
            if isinstance(conv, Conv2dOp) and conv.requant is not None:
                values = list(conv.requant.parameters)
                values[0] = IntAttr(values[0].data + self.by)
                conv.requant = conv.requant.new(values)

@dataclass(frozen=True)
class CrashPass(ModulePass):
    '''Crash.'''

    name = "crash"

    def apply(self, ctx, op):
        raise KeyError("nothing")

@dataclass(frozen=True)
class LeavePass(ModulePass):
    name = "leave"

    def apply(self, ctx, op):
        raise SystemExit(0)
"""

TARGET = """
from collections.abc import Iterator
from dataclasses import dataclass
from ceras_ir.network.artefacts import Artefact
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.interpreters.network import run
from ceras_ir.targets import PLACED, Emission, Stage, Target, option
from ceras_ir.transforms.placement import PlacePass

class Echo:
    def __init__(self, path):
        self.module = read_network(str(path))

    def run(self, samples):
        for sample in samples:
            yield run(self.module, sample)

    def trace(self, sample, trace):
        pass

@dataclass(frozen=True)
class EchoTarget(Target):
    '''Text that the interpreter runs.'''

    name = "echo"
    word: str = option("hello", "what the manifest says")

    def lower(self):
        return [Stage(PLACED, (PlacePass("echo"),)), Stage("echoed graph", ())]

    def emit(self, module, title):
        text = Artefact.of_text("net.mlir", "the network", str(module))
        return Emission([text], manifest={"word": self.word})

    def open(self, folder, manifest):
        return Echo(folder / "net.mlir")
"""

SUM = EXAMPLES / "plugin/scale_add.mlir"


@pytest.fixture
def tool(capsys: pytest.CaptureFixture[str]) -> Tool:
    """Run a command in this process, which needs a fifth of the time."""

    def run(command: str, *arguments: str | Path) -> Result:
        name = command.removeprefix("ceras-")
        status = import_module(commands()[name].load().module).main([str(a) for a in arguments])
        captured = capsys.readouterr()
        return Result(status, captured.out, captured.err)

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create the folder of the commands, with plugins and inputs."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "narrow.py").write_text(CLAMP, encoding="utf-8")
    (tmp_path / "echo.py").write_text(TARGET, encoding="utf-8")
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "pools.npz", x=rng.normal(size=(2, 1, 16, 16, 4)).astype(np.float32))
    np.savez(tmp_path / "sum.npz", x=rng.normal(size=(2, 3, 5)).astype(np.float32))
    return tmp_path


INT8 = ("--quantize", "int8")
AT_INT8 = (*INT8, SINK, "--at", "quantized graph", "sink-lookup")


def test_a_pass_reaches_the_artefact(tool: Tool, folder: Path):
    done = tool("ceras-compile", POOLS, "-o", "out", "--target", "c", "--save-temps", *AT_INT8)
    assert done.status == 0, done.stderr
    layers = json.loads((folder / "out/report.json").read_text())["layers"]
    assert [layer["bytes"] for layer in layers if layer["op"] == "lookup"] == [512, 512]
    assert [p.name for p in sorted(folder.glob("out/temps/*"))][1:4] == [
        "1-fused-graph.mlir",
        "2-quantized-graph.mlir",
        "3-quantized-graph-sink-lookup.mlir",
    ]


def test_a_pass_behind_the_placed_graph_is_in_the_report(tool: Tool, folder: Path):
    at = ("--at", "placed graph", "sink-lookup", "--why", "pool")
    done = tool("ceras-compile", POOLS, "-o", "out", "--target", "c", *INT8, SINK, *at)
    assert done.status == 0, done.stderr
    layers = json.loads((folder / "out/report.json").read_text())["layers"]
    assert [layer["bytes"] for layer in layers if layer["op"] == "lookup"] == [512, 512]
    assert done.stdout.count("pool (graph.lookup) on the cpu") == 1


@pytest.mark.slow
@pytest.mark.needs("nnet", "vta")
def test_a_pass_is_verified_on_all_targets(tool: Tool, folder: Path):
    done = tool("ceras-verify", POOLS, SINK, "--at", "quantized graph", "sink-lookup")
    assert done.status == 0, done.stderr + done.stdout
    verdicts = dict(line.rsplit("  ", 1) for line in done.stdout.splitlines()[1:])
    assert {name.strip(): text.strip() for name, text in verdicts.items()}.items() >= {
        ("quantized graph, sink-lookup", "exact"),
        ("c: machine", "exact"),
        ("nnet: machine", "exact"),
        ("vta: machine", "exact"),
    }


@pytest.mark.parametrize("target", ["interp", "c"])
def test_a_pass_is_run(tool: Tool, folder: Path, target: str):
    results: list[list[float]] = []
    for at in ((), (SWAP, "--at", "fused graph", "swap-function{old=tanh new=relu},cse")):
        files = ("--inputs", "pools.npz", "--outputs", "y.npz")
        done = tool("ceras-run", POOLS, *files, "--target", target, *at)
        assert done.status == 0, done.stderr
        results.append(np.load(folder / "y.npz")["y"].ravel().tolist())
    assert results[0] != results[1]


def test_a_pass_runs_before_fusion(tool: Tool, folder: Path):
    swap = "swap-function{old=tanh new=relu}"
    at = (SWAP, "--at", "imported graph", swap)
    done = tool("ceras-compile", POOLS, "-o", "out", "--target", "c", "--save-temps", *at)
    assert done.status == 0, done.stderr
    assert [p.name for p in sorted(folder.glob("out/temps/*"))][1:3] == [
        "1-imported-graph-swap-function-old-tanh-new-relu.mlir",
        "2-fused-graph.mlir",
    ]
    done = tool("ceras-verify", POOLS, *at, "--targets", "c", "--quantize", "none")
    assert done.status == 1
    (wrong,) = (line for line in done.stdout.splitlines() if "differs" in line)
    assert wrong.startswith(f"imported graph, {swap} ") and "first at node 'tanh'" in wrong


@pytest.mark.needs("workbench")
def test_a_pass_is_compared(tool: Tool, folder: Path):
    for level in ("imported graph", "fused graph"):
        at = (SWAP, "--at", level, "swap-function{old=tanh new=relu}")
        done = tool("ceras-compare", POOLS, "--inputs", "pools.npz", *at)
        assert done.status == 0, done.stderr
        assert "tanh" not in done.stdout
        assert "(swish)" in done.stdout


@pytest.mark.parametrize(
    ("level", "target", "first"),
    [
        ("memory", "nnet", "nnet: memory, narrow"),
        slow("quantized graph", "c", "quantized graph, narrow"),
        slow("placed graph", "vta", "vta: placed graph, narrow"),
    ],
)
def test_what_changes_values_is_named(
    tool: Tool, folder: Path, level: str, target: str, first: str
):
    plugin = ("--load-pass-plugin=narrow.py", "--targets", target)
    done = tool("ceras-verify", POOLS, *plugin, "--at", level, "narrow{by=3}")
    assert done.status == 1, done.stderr
    wrong = [line for line in done.stdout.splitlines() if "differs" in line]
    assert wrong[0].startswith(f"{first}{{by=3}} ")
    assert "differs on sample 0: output 'y'" in wrong[0]
    assert "first at node 'first'" in wrong[0]


def test_a_float_pass_that_changes_values_is_named(tool: Tool, folder: Path):
    at = (SWAP, "--at", "fused graph", "swap-function{new=relu}", "--targets", "c")
    done = tool("ceras-verify", POOLS, *at, "--quantize", "none")
    assert done.status == 1
    (wrong,) = (line for line in done.stdout.splitlines() if "differs" in line)
    assert "first at node 'second'" in wrong


def test_what_was_verified_before_a_crash_is_said(tool: Tool, folder: Path):
    plugin = ("--load-pass-plugin=narrow.py", "--targets", "c")
    done = tool("ceras-verify", POOLS, *plugin, "--at", "memory", "crash")
    assert done.status == 70
    assert done.stdout.splitlines()[-1].split() == ["c:", "memory", "exact"]
    assert "pass 'crash' crashed before level 'memory, crash'" in done.stderr
    again = tool("ceras-opt", "--run-reproducer", "ceras-crash-crash.mlir")
    assert again.status == 70


@pytest.mark.parametrize("command", ["ceras-opt", "ceras-verify"])
def test_a_pass_that_exits_is_an_error(tool: Tool, folder: Path, command: str):
    run = ("--leave",) if command == "ceras-opt" else ("--at", "fused graph", "leave")
    done = tool(command, POOLS, "--load-pass-plugin=narrow.py", *run)
    assert done.status == 1
    assert "a plugin calls sys.exit(0): raise an exception" in done.stderr


def test_a_pass_that_renames_outputs_is_named(tool: Tool, folder: Path):
    change = "decode-outputs{kind=top count=2}"
    done = tool("ceras-verify", POOLS, "--at", "imported graph", change, "--targets", "c")
    assert done.status == 1
    (wrong,) = (line for line in done.stdout.splitlines() if "differs" in line)
    assert "output 'y' is missing; the outputs are y_classes, y_scores" in wrong


def test_a_wrong_program_of_an_operation_is_found(tool: Tool, folder: Path):
    """Networks with operations of plugins also have a sample with negative numbers."""
    text = (EXAMPLES / "plugin/scale_add.py").read_text()
    body = "{factor} * {a}[i] + {b}[i];"
    assert text.count(body) == 1
    (folder / "wrong.py").write_text(text.replace(body, "{b}[i] < 0 ? 9.0f : " + body))
    plugin = ("--load-dialect-plugin=wrong.py", "--targets", "c", "--quantize", "none")
    done = tool("ceras-verify", SUM, *plugin)
    assert done.status == 1 and "first at node" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--at", "fused grap", "cse"), "no level 'fused grap'; did you mean 'fused graph'?"),
        (("--at", "tile", "cse"), "no level 'tile' (levels: imported graph, fused graph, "),
        ((SINK, "--sink-lookup"), "--sink-lookup is a pass, which ceras-opt runs; here, name the"),
        (("--at", "memory", "sink-lockup", SINK), "did you mean 'sink-lookup'?"),
        (("--at", "memory", "sink-lookup{x=1}", SINK), "'sink-lookup' has no option 'x'"),
        (("--at", "memory", ""), "empty pass name"),
    ],
)
def test_misspellings(tool: Tool, folder: Path, options: tuple[str, ...], message: str):
    done = tool("ceras-compile", POOLS, "-o", "out", "--target", "c", *options)
    assert done.status == 2
    assert message in done.stderr
    assert not (folder / "out").exists()


def test_a_compiled_folder_takes_no_passes(tool: Tool, folder: Path):
    assert tool("ceras-compile", POOLS, "-o", "out", "--target", "c").status == 0
    files = ("--inputs", "pools.npz", "--outputs", "y.npz")
    done = tool("ceras-run", "out", *files, "--at", "memory", "cse")
    assert done.status == 2
    assert "has no levels" in done.stderr


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("ceras-compile", ("-o", "out", "--target", "c")),
        ("ceras-verify", ("--targets", "c", "--quantize", "none")),
        ("ceras-run", ("--inputs", "sum.npz", "--outputs", "y.npz")),
        ("ceras-run", ("--inputs", "sum.npz", "--outputs", "y.npz", "--target", "c")),
        ("ceras-compare", (str(SUM), "--inputs", "sum.npz")),
    ],
)
def test_a_dialect(tool: Tool, folder: Path, command: str, options: tuple[str, ...]):
    done = tool(command, SUM, *options, DIALECT)
    assert done.status == 0, done.stderr
    if command == "ceras-run":
        x, y = (np.load(folder / name)[key] for name, key in (("sum.npz", "x"), ("y.npz", "y")))
        np.testing.assert_allclose(y, np.maximum(np.exp(x) / 2 + x, 0), rtol=1e-5, atol=1e-6)
    assert tool(command, SUM, *options).status == 1


ECHO = "--load-target-plugin=echo.py"


@pytest.mark.parametrize(
    ("command", "options", "shown"),
    [
        ("ceras-compile", ("-o", "out", "--target", "echo", "--word", "hi"), "compiled for echo"),
        ("ceras-verify", ("--targets", "c,echo"), "echo: echoed graph               exact"),
        ("ceras-run", ("--inputs", "pools.npz", "--outputs", "y.npz", "--target", "echo"), ""),
        ("ceras-compare", ("--inputs", "pools.npz"), "signal to noise"),
    ],
)
def test_a_target(tool: Tool, folder: Path, command: str, options: tuple[str, ...], shown: str):
    done = tool(command, POOLS, ECHO, *options)
    assert done.status == 0, done.stderr
    assert shown in done.stdout
    if command == "ceras-compile":
        manifest = json.loads((folder / "out/manifest.json").read_text())
        assert (manifest["target"], manifest["word"]) == ("echo", "hi")
        files = ("--inputs", "pools.npz", "--outputs", "y.npz")
        assert tool("ceras-run", "out", *files, ECHO).status == 0
        assert "unknown target 'echo'" in tool("ceras-run", "out", *files).stderr


def test_passes_behind_a_level_of_a_plugin_target(tool: Tool, folder: Path):
    at = ("--at", "echoed graph", "sink-lookup")
    done = tool("ceras-verify", POOLS, ECHO, SINK, "--targets", "echo", *at)
    assert done.status == 0, done.stderr
    assert "echo: echoed graph, sink-lookup  exact" in done.stdout
