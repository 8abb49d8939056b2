"""Check members of plugin classes: the message names file, class, member and page."""

from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from ceras_ir.command.entry_point import commands

POOLS = Path(__file__).parents[2] / "examples/plugin/pools.mlir"

HEADER = """
from dataclasses import dataclass
from xdsl.passes import ModulePass
from ceras_ir.network.artefacts import Artefact
from ceras_ir.targets import *
from ceras_ir.targets import Accelerator, option
from ceras_ir.transforms.placement import PlacePass
"""

TARGET = '''
class Npu(Accelerator):
    device = "npu"

    def why_not(self, op):
        return "nothing runs here"

@dataclass(frozen=True)
class Toy(Target):
    """A toy."""

    name = "toy"
    depth: int = option(4, "pictures", metavar="N")

    @classmethod
    def accelerator(cls, board, jobs=1):
        return Npu()

    def lower(self):
        return [Stage(PLACED, (PlacePass("toy"),))]

    def emit(self, module, title):
        return Emission([Artefact.of_text("net.mlir", "the network", str(module))])

    def open(self, folder, manifest):
        raise NotImplementedError
'''

PASS = """
@dataclass(frozen=True)
class Nothing(ModulePass):
    name = "nothing"

    def apply(self, ctx, op):
        pass
"""


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(command: str, *arguments: str | Path) -> int:
    module = commands()[command.removeprefix("ceras-")].load().module
    return import_module(module).main([str(each) for each in arguments])


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("@dataclass(frozen=True)\n", "", "Toy has the option 'depth' but is no dataclass: add @d"),
        ("    @classmethod\n", "", "Toy needs @classmethod above method 'accelerator'"),
        (
            "    def lower",
            "    @classmethod\n    def lower",
            "Toy has @classmethod above method 'l",
        ),
        (
            "folder, manifest",
            "folder",
            "Toy needs the parameters (self, folder, manifest) and not (self, folder) in method 'o",
        ),
        ("(cls, board, jobs=1)", "(cls, board)", "(cls, board, jobs) and not (cls, board) in"),
        ('"toy"\n', '"toy"\n    check = 3\n', "Toy needs a method 'check'"),
        ('"toy"\n', '"toy"\n    passes = []\n', "Toy has attribute 'passes' of type list, expec"),
        ('"toy"\n', '"toy"\n    arithmetic = 8\n', "of type int, expected Arithmetic"),
        ('    name = "toy"\n', "", "Toy has no attribute 'name': add name = "),
        ("why_not", "whynot", "Npu has no method 'why_not'; did you mean 'whynot'?"),
        ("why_not(self, op)", "why_not(self)", "Npu needs the parameters (self, op) and not (se"),
    ],
)
def test_a_wrong_member_of_a_target(
    old: str, new: str, finding: str, capsys: pytest.CaptureFixture[str]
):
    assert old in TARGET
    Path("toy.py").write_text(HEADER + TARGET.replace(old, new, 1))
    plugin = "--load-target-plugin=toy.py"
    status = run("ceras-compile", POOLS, plugin, "--target", "toy", "-o", "out")
    printed = capsys.readouterr().err
    assert status == 1
    (line,) = printed.splitlines()
    assert line.startswith("toy.py:") and ":1: error: class " in line and finding in line
    assert line.endswith("(docs/new-target.md)")


@pytest.mark.parametrize(
    ("old", "new", "finding"),
    [
        ("apply", "aply", "toy.py:9:1: error: class Nothing has no method 'apply'; did you mean"),
        ("ctx, op", "op", "toy.py:13:1: error: class Nothing needs the parameters (self, ctx, op)"),
        ("@dataclass(frozen=True)", "", "toy.py:10:1: error: class Nothing has the option"),
        ('    name = "nothing"\n', "", "toy.py:9:1: error: class Nothing has no attribute 'name'"),
    ],
)
def test_a_wrong_member_of_a_pass(
    old: str, new: str, finding: str, capsys: pytest.CaptureFixture[str]
):
    text = PASS.replace("    def apply", "    depth: int = 3\n\n    def apply").replace(old, new)
    text = text if old.startswith("@") else text.replace("    depth: int = 3\n\n", "")
    Path("toy.py").write_text(HEADER + text)
    assert run("ceras-opt", POOLS, "--load-pass-plugin=toy.py", "-o", "out.mlir") == 1
    printed = capsys.readouterr().err
    assert printed.startswith(finding) and printed.endswith("(docs/new-pass.md)\n")


@pytest.mark.parametrize("text", [TARGET, PASS, TARGET + PASS])
def test_correct_classes_are_accepted(text: str):
    base = "class Base(ModulePass):\n    pass\n\n"
    Path("toy.py").write_text(HEADER + base + (text + PASS).replace("(ModulePass)", "(Base)"))
    assert run("ceras-opt", POOLS, "--load-pass-plugin=toy.py", "-o", "out.mlir") == 0


COMPILE = ("ceras-compile", "--target", "toy", "-o", "out")
VERIFY = ("ceras-verify", "--targets", "toy", "--quantize", "none")
RUN = ("ceras-run", "--target", "toy", "--inputs", "no.npz", "--outputs", "y.npz")
LOWER, EMIT, OPEN = "has no levels", "writes no files", "cannot run what it compiles"


@pytest.mark.parametrize(
    ("command", "member", "consequence"),
    [
        *((COMPILE, member, text) for member, text in (("lower", LOWER), ("emit", EMIT))),
        *((VERIFY, m, text) for m, text in (("lower", LOWER), ("emit", EMIT), ("open", OPEN))),
        *((RUN, m, text) for m, text in (("lower", LOWER), ("emit", EMIT), ("open", OPEN))),
    ],
)
def test_a_method_that_a_command_needs(
    command: tuple[str, ...], member: str, consequence: str, capsys: pytest.CaptureFixture[str]
):
    Path("toy.py").write_text(HEADER + TARGET.replace(f"def {member}(", f"def {member}s("))
    name, *options = command
    status = run(name, POOLS, *options, "--load-target-plugin=toy.py")
    printed = capsys.readouterr()
    assert status == 3, printed.err
    line = (
        f"toy.py: error: unsupported: target toy {consequence}, because class Toy has no method "
        f"'{member}'; did you mean '{member}s'? (docs/new-target.md)"
    )
    assert printed.err.splitlines()[-1] == line
    if name == "ceras-verify" and member != "lower":
        assert "toy: placed graph                exact" in printed.out
        assert "toy: machine                     unsupported" in printed.out


def test_a_compiled_folder_without_open(capsys: pytest.CaptureFixture[str]):
    Path("toy.py").write_text(HEADER + TARGET.replace("def open(", "def start("))
    plugin = "--load-target-plugin=toy.py"
    assert run("ceras-compile", POOLS, "--target", "toy", "-o", "out", plugin) == 0
    np.savez("in.npz", x=np.zeros((1, 1, 16, 16, 4), np.float32))
    assert run("ceras-run", "out", "--inputs", "in.npz", "--outputs", "y.npz", plugin) == 3
    assert "toy.py: error: unsupported: target toy cannot run" in capsys.readouterr().err


@pytest.mark.parametrize("command", [COMPILE, VERIFY])
def test_an_accelerator_without_device(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
):
    Path("toy.py").write_text(HEADER + TARGET.replace("    device =", "    devices ="))
    name, *options = command
    assert run(name, "no.onnx", *options, "--load-target-plugin=toy.py") == 2
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith("toy.py: error: target toy: class Npu has no attribute 'device': name")
    assert line.endswith("(docs/new-target.md)")
