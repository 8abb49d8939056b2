"""Check internal errors: exit status 70, the pass and level, and a working reproducer."""

import os
import resource
import shlex
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from conftest import Tool
from onnx_models import conv_model
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.exceptions import PassFailedException

from ceras_ir.command.entry_point import MIN_ADDRESS_SPACE
from ceras_ir.command.exit_status import MAX_LINES, Diagnostic, InternalError, phase, run_tool
from ceras_ir.driver.opt import tool as opt
from ceras_ir.pipeline import printing
from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.pipeline.instrumentation import PassRunner
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.pass_options import spell_pipeline
from ceras_ir.pipeline.stages import BuildOptions, front_stages, run_stages, target_stages
from ceras_ir.support.diagnostics import InputError
from ceras_ir.targets.protocol import Stage
from ceras_ir.targets.registry import find_target
from ceras_ir.transforms.pass_kinds import flatten

DIGITS = Path(__file__).parents[2] / "examples" / "digits"
PLUGIN = Path(__file__).parents[1] / "lit/driver/Inputs/wrong_passes.py"
TEXT = """func.func @main(%x: tensor<20xf32>) -> tensor<20xf32> {
  func.return %x : tensor<20xf32>
}
"""


@dataclass(frozen=True)
class RaisePass(ModulePass):
    """Raise the exception that a test sets."""

    name = "raise"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        raise RAISED[-1]


RAISED: list[BaseException] = []


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Run in a separate folder of the test with a text to compile."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in.mlir").write_text(TEXT)
    return tmp_path


def failure(error: BaseException, level: str = "tile") -> InternalError:
    """Return the error that the stages report for a pass that raises `error`."""
    RAISED.append(error)
    ctx = load_context()
    with pytest.raises(InternalError) as info:
        run_stages(ctx, parse_text(ctx, TEXT, "in.mlir"), [Stage(level, (RaisePass(),))])
    return info.value


@pytest.mark.parametrize("name", ["drop-returned", "look-up"])
def test_replay_fails_alike(tool: Tool, in_folder: Path, name: str):
    first = tool("ceras-opt", "in.mlir", f"--load-pass-plugin={PLUGIN}", f"--{name}")
    assert first.status == 70 and not first.stdout
    *_, message, advice = first.stderr.splitlines()
    file = f"ceras-crash-{name}.mlir"
    assert advice == f"reproducer: {file}: replay with: ceras-opt --run-reproducer {file}"
    before = (in_folder / file).read_text()
    again = tool(*shlex.split(advice.partition("replay with: ")[2]))
    assert again.status == 70
    assert message.partition("error: ")[2] in again.stderr
    assert (in_folder / file).read_text() == before
    assert sorted(os.listdir()) == [file, "in.mlir"]


def test_an_earlier_reproducer_is_kept(tool: Tool, in_folder: Path):
    for _ in range(2):
        tool("ceras-opt", "in.mlir", f"--load-pass-plugin={PLUGIN}", "--look-up")
    names = ["ceras-crash-look-up-2.mlir", "ceras-crash-look-up.mlir", "in.mlir"]
    assert sorted(os.listdir()) == names


def test_the_ir_is_that_before_the_pass(tool: Tool, in_folder: Path):
    flags = ["--mark", "--mark", "--look-up=key=x", "--mark"]
    tool("ceras-opt", "in.mlir", f"--load-pass-plugin={PLUGIN}", *flags, "--reproducer=r.mlir")
    text = (in_folder / "r.mlir").read_text()
    assert "\n// pipeline: look-up{key=x}\n" in text and "{marked}" in text


def test_input_that_was_invalid_before_is_the_users(tool: Tool, in_folder: Path):
    (in_folder / "in.mlir").write_text("func.func @f() -> i32 {\n  func.return\n}\n")
    done = tool("ceras-opt", "in.mlir", "--cse")
    assert done.status == 1 and "pass" not in done.stderr
    assert os.listdir() == ["in.mlir"]


def test_a_crash_names_pass_and_level():
    error = failure(KeyError("x"))
    first, advice = error.lines("model.onnx")
    assert first == ("model.onnx: error: pass 'raise' crashed before level 'tile': KeyError: 'x'")
    assert advice.startswith("reproducer: ceras-crash-raise.mlir: ")
    assert "// level: tile\n" in Path("ceras-crash-raise.mlir").read_text()


def test_tools_print_the_traceback_first(capsys: pytest.CaptureFixture[str]):
    def main(argv: object) -> int:
        raise failure(ZeroDivisionError("no"))

    assert run_tool("ceras-compile", main, []) == 70
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback") and lines[-3] == "ZeroDivisionError: no"
    assert lines[-2].startswith("ceras-compile: error: pass 'raise' crashed")
    assert lines[-1].startswith("reproducer: ")


@pytest.mark.parametrize(
    "error", [InputError("no"), PassFailedException("no"), OSError(2, "no", "f"), MemoryError()]
)
def test_what_a_user_can_cause_is_no_crash(error: BaseException):
    RAISED.append(error)
    ctx = load_context()
    with pytest.raises((InputError, OSError, MemoryError)) as info:
        PassRunner().run(ctx, parse_text(ctx, TEXT, "in.mlir"), [RaisePass()])
    assert not isinstance(info.value, InternalError)
    assert os.listdir() == ["in.mlir"]


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_ends_are_no_crash(end: type[BaseException]):
    RAISED.append(end())
    ctx = load_context()
    with pytest.raises(end):
        PassRunner().run(ctx, parse_text(ctx, TEXT, "in.mlir"), [RaisePass()])
    assert os.listdir() == ["in.mlir"]


def test_a_crash_outside_passes_names_the_phase(capsys: pytest.CaptureFixture[str]):
    def main(argv: object) -> int:
        with phase("emission for target c"):
            raise IndexError("7")

    assert run_tool("ceras-compile", main, []) == 70
    err = capsys.readouterr().err
    assert "Traceback" in err
    *_, message, advice = err.splitlines()
    assert message == (
        "ceras-compile: error: internal error in emission for target c: IndexError: 7"
    )
    file = "ceras-crash-compile.txt"
    assert advice == f"reproducer: {file}: the command and the full traceback"
    text = Path(file).read_text()
    assert "ceras-compile 0." in text and f"command: {shlex.join(sys.argv)}\n" in text
    assert text.endswith("IndexError: 7\n")


def test_a_long_traceback_is_cut(capsys: pytest.CaptureFixture[str]):
    def main(argv: object, depth: int = 300) -> int:
        return main(argv, depth - 1) if depth else int("x")

    assert run_tool("ceras-run", main, []) == 70
    assert len(capsys.readouterr().err.splitlines()) < 30
    assert Path("ceras-crash-run.txt").read_text().count("return main") > 1


def test_hostile_depth_is_no_bare_traceback(capsys: pytest.CaptureFixture[str]):
    def main(argv: object) -> int:
        return main(argv)

    assert run_tool("ceras-run", main, []) == 70
    assert "internal error in ceras-run: RecursionError: " in capsys.readouterr().err


def test_many_findings_leave_room_for_the_reproducer():
    error = InternalError([Diagnostic(f"no {i}") for i in range(100)], "reproducer: r.mlir")
    lines = error.lines("in.mlir")
    assert len(lines) == MAX_LINES and lines[-1] == "reproducer: r.mlir"
    assert lines[-2] == "... and 72 more lines"


def test_a_folder_that_is_gone(in_folder: Path, monkeypatch: pytest.MonkeyPatch):
    temporary = in_folder / "temporary"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    gone = in_folder / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    advice = failure(KeyError("x")).lines("in.mlir")[-1]
    assert advice.startswith(f"reproducer: {temporary}/ceras-crash-raise.mlir: ")
    temporary.joinpath("ceras-crash-raise.mlir").unlink()
    temporary.rmdir()
    advice = failure(KeyError("x")).lines("in.mlir")[-1]
    assert advice.startswith("no reproducer: ")


def test_a_new_copy_is_as_good(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(printing, "SECONDS_PER_COPY", -1)
    failure(KeyError("x"))
    assert "// pipeline: raise\n" in Path("ceras-crash-raise.mlir").read_text()


def test_passes_that_cannot_run_twice_are_all_in_the_reproducer():
    ctx = load_context()
    module = parse_text(ctx, TEXT, "in.mlir")
    checkpoint = printing.Checkpoint()
    RAISED.append(KeyError("x"))
    checkpoint.before(module, RaisePass())
    checkpoint.before(module, RaisePass())
    checkpoint.save(ctx, "r.mlir", None)
    assert "// pipeline: raise,raise\n" in Path("r.mlir").read_text()


def test_files_in_options_are_found_from_anywhere(in_folder: Path, tool: Tool):
    (in_folder / "images").mkdir()
    (in_folder / "vta").mkdir()
    (in_folder / "a.npz").touch()

    @dataclass(frozen=True)
    class CalibratePass(RaisePass):
        name = "calibrating"

        calibration: str | None = None
        board: str | None = None

    ctx = load_context()
    checkpoint = printing.Checkpoint()
    pass_ = CalibratePass("a.npz,images?size=2x2,none.npz", "vta")
    checkpoint.before(parse_text(ctx, TEXT, "in.mlir"), pass_)
    checkpoint.save(ctx, "r.mlir", None)
    names = f"{in_folder}/a.npz,{in_folder}/images?size=2x2,none.npz"
    expected = f'// pipeline: calibrating{{calibration="{names}" board=vta}}\n'
    assert expected in Path("r.mlir").read_text()


@pytest.mark.parametrize("target", ["c", "nnet", "vta", "onnx", "arduino"])
def test_reproducers_of_stages_can_be_replayed(target: str):
    universe = load_universe().all_passes
    options = BuildOptions(find_target(target)(), "int8", io="int8")
    for stage in [*front_stages(options), *target_stages(options)]:
        for pass_ in stage.passes:
            for inner in flatten(pass_):
                assert universe[inner.name]() is type(inner), spell_pipeline([inner])


def test_ceras_compile_on_a_pass_of_ours(
    in_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    from ceras_ir.driver import compile as compile_tool
    from ceras_ir.transforms.placement import PlacePass

    def crash(self: PlacePass, ctx: Context, op: ModuleOp) -> None:
        raise KeyError("device")

    monkeypatch.setattr(PlacePass, "apply", crash)
    (in_folder / "m.onnx").write_bytes(conv_model((1, 2, 6, 6), 3, (3, 3)).SerializeToString())
    command = ["ceras-compile", "m.onnx", "-o", "out", "--target", "c"]
    monkeypatch.setattr(sys, "argv", command)
    assert compile_tool.main(command[1:]) == 70
    message = capsys.readouterr().err.splitlines()[-2]
    expected = "pass 'place' crashed before level 'placed graph': KeyError: 'device'"
    assert message == f"m.onnx: error: {expected}"
    assert sorted(os.listdir()) == ["ceras-crash-place.mlir", "in.mlir", "m.onnx"]
    text = Path("ceras-crash-place.mlir").read_text()
    assert "// command: ceras-compile m.onnx -o out --target c\n" in text

    monkeypatch.undo()
    monkeypatch.chdir(in_folder)
    assert opt.main(["--run-reproducer", "ceras-crash-place.mlir"]) == 0
    assert "graph.conv2d" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("mebibytes", [60, 115, 155, 234, 287])
def test_little_memory(mebibytes: int, tmp_path: Path) -> None:
    """No command starts with a limit at which libraries crash, or Python does not end."""
    limit, command = mebibytes << 20, Path(sys.executable).with_name("ceras-compile")
    done = subprocess.run(
        [command, DIGITS / "digits.onnx", "--target", "c", "-o", "out"], cwd=tmp_path,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 1 and done.stderr.count("\n") == 1, done.stderr
    assert "out of memory" in done.stderr and not [*tmp_path.glob("*out*")]


def test_enough_memory_to_start() -> None:
    limit, command = MIN_ADDRESS_SPACE, Path(sys.executable).with_name("ceras-boards")
    done = subprocess.run(
        command, capture_output=True, text=True, check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )  # fmt: skip
    assert done.returncode == 0 and "uno_r4_wifi" in done.stdout, done.stderr
