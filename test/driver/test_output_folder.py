"""Check that `ceras-compile` writes its folder completely or not, and keeps user files."""

import json
import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
from onnx_models import conv_model

from ceras_ir.command import output_folder
from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.output_folder import open_folder
from ceras_ir.driver.compile import main as compile_main
from ceras_ir.support.diagnostics import InputError, UsageError

Tree = dict[str, str]


@pytest.fixture(autouse=True)
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """Run in a separate folder, and check that no hidden file remains."""
    monkeypatch.chdir(tmp_path)
    yield
    assert not list(tmp_path.rglob(".*"))


def tree(folder: str = "out") -> Tree:
    files = (path for path in Path(folder).rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def fill(folder: Path, files: Tree) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def build(files: Tree, *, force: bool = False, path: str = "out") -> None:
    """Write files, and a manifest that lists them, as the command does."""
    with open_folder(path, force=force) as folder:
        manifest = json.dumps({"version": 1, "target": "t", "files": dict.fromkeys(files, "")})
        fill(folder, {**files, "manifest.json": manifest, "report.json": "{}"})


def test_files_of_an_earlier_target_go() -> None:
    build({"a": "1", "temps/x": "1", "kept/y": "1"})
    fill(Path("out"), {"kept/notes": "mine", "notes": "mine"})
    build({"b": "2"})
    assert {**tree(), "manifest.json": "", "report.json": ""} == {
        "b": "2", "kept/notes": "mine", "notes": "mine", "manifest.json": "", "report.json": ""
    }  # fmt: skip
    assert not Path("out/temps").exists()


MAKEFILE = """\
NAME := model
all: model_run
model_run: model.o
\tcc model.o -o $@
clean:
\trm -f model.o model_run
.PHONY: all clean
"""


def test_what_make_built_goes_too() -> None:
    """Objects and programs of another target are stale; equal names of the user are kept."""
    build({"model.c": "1", "Makefile": MAKEFILE, "driver/Makefile": MAKEFILE})
    built = {"model.o": "old", "model_run": "old", "driver/model_run": "old"}
    fill(Path("out"), built | {"mine.o": "mine", "clean": "mine", "NAME": "mine"})
    build({"model.nnet": "2"})
    assert tree().keys() == {
        "model.nnet", "mine.o", "clean", "NAME", "manifest.json", "report.json"
    }  # fmt: skip


@pytest.mark.parametrize("before", ["nothing", "empty", "ours"])
def test_who_ends_last_replaces_what_another_process_wrote(before: str) -> None:
    """The second process writes all files between the start and the end of the first process."""
    if before == "ours":
        build({"a": "0", "b": "0"})
    elif before == "empty":
        Path("out").mkdir()
    with open_folder("out") as folder:
        build({"b": "2", "c": "2"})
        manifest = json.dumps({"version": 1, "target": "t", "files": {"a": ""}})
        fill(folder, {"a": "1", "manifest.json": manifest})
    assert {**tree(), "manifest.json": ""} == {"a": "1", "manifest.json": ""}


def test_what_a_manifest_of_somebody_else_lists_stays() -> None:
    fill(Path("."), {"secret": "mine", "elsewhere/x": "mine"})
    listed = ["../secret", str(Path("secret").resolve()), "", ".", "link/x"]
    manifest = {"version": 1, "target": "t", "files": dict.fromkeys(listed, "")}
    fill(Path("out"), {"manifest.json": json.dumps(manifest)})
    Path("out/link").symlink_to(Path("elsewhere").resolve())
    build({"a": "1"})
    assert Path("secret").exists() and Path("elsewhere/x").exists()


@pytest.mark.parametrize("manifest", [None, "{}", "[]", "[" * 100_000, '{"version": "1.0"}'])
def test_a_folder_that_is_not_ours(manifest: str | None) -> None:
    before = {"Makefile": "mine", "notes": "mine"}
    before |= {} if manifest is None else {"manifest.json": manifest}
    fill(Path("out"), before)
    with pytest.raises(InputError, match=r"has files that ceras-compile did not write"):
        build({"Makefile": "ours"})
    assert tree() == before
    build({"Makefile": "ours"}, force=True)
    assert (tree()["Makefile"], tree()["notes"]) == ("ours", "mine")


def test_a_file_of_the_users_in_a_folder_of_ours() -> None:
    build({"a": "1"})
    fill(Path("out"), {"main.c": "mine"})
    before = tree()
    with pytest.raises(InputError, match=r"main.c is a file that ceras-compile did not write"):
        build({"a": "2", "main.c": "ours"})
    assert tree() == before
    build({"a": "2", "main.c": "ours"}, force=True)
    assert tree()["main.c"] == "ours"


@pytest.mark.parametrize("force", [False, True])
def test_all_or_nothing(force: bool) -> None:
    build({"a": "1", "b/c": "1"})
    os.unlink("out/report.json")
    Path("out/report.json").mkdir()
    before = tree()
    with pytest.raises(InputError, match=r"report.json is a folder, and the output has a file"):
        build({"a": "2"}, force=force)
    assert tree() == before
    os.rmdir("out/report.json")
    with pytest.raises(InputError, match="a is a file, and the output has such a folder"):
        build({"a/x": "2"}, force=force)
    assert tree() == before


@pytest.mark.slow
@pytest.mark.parametrize("end", [OSError(28, "No space left on device"), SystemExit(143)])
def test_a_move_that_fails_is_undone(monkeypatch: pytest.MonkeyPatch, end: BaseException) -> None:
    monkeypatch.setattr(output_folder, "_system_exchange", lambda: None)
    build({"a": "1", "b/c": "1", "d": "1"})
    before = tree()
    moves = os.replace
    # Each of the 5 files set aside and the 5 new files fails in turn.
    for count in range(10):
        left = [count]

        def fail(source: Path, target: Path, left: list[int] = left) -> None:
            left[0] -= 1
            if left[0] == -1:
                raise end
            moves(source, target)

        monkeypatch.setattr(output_folder.os, "replace", fail)
        with pytest.raises((InputError, SystemExit)):
            build({"a": "2", "b/c": "2", "e/f": "2"})
        monkeypatch.setattr(output_folder.os, "replace", moves)
        assert tree() == before and not Path("out/e").exists(), count
    build({"a": "2", "b/c": "2", "e/f": "2"})
    assert set(tree()) == {"a", "b/c", "e/f", "manifest.json", "report.json"}


def test_the_current_folder_stays_where_it_is(tmp_path: Path) -> None:
    Path("here").mkdir()
    os.chdir("here")
    for _ in range(2):
        build({"a": "1"}, path=".")
        assert os.path.samefile(os.getcwd(), tmp_path / "here") and tree(".")["a"] == "1"


def test_no_name() -> None:
    with pytest.raises(UsageError, match="the name of the output folder is empty"):
        build({"a": "1"}, path="")
    Path("m.onnx").write_bytes(conv_model((1, 2, 6, 6), 3, (3, 3)).SerializeToString())
    assert compile_main(["m.onnx", "-o", "", "--target", "c"]) == 2
    assert os.listdir() == ["m.onnx"]


@pytest.mark.needs("workbench")
def test_ceras_compile_lists_all_that_it_writes(capsys: pytest.CaptureFixture[str]) -> None:
    Path("m.onnx").write_bytes(conv_model((1, 2, 6, 6), 3, (3, 3)).SerializeToString())
    command = ["m.onnx", "-o", "out", "--target", "c"]
    assert compile_main([*command, "--save-temps", "--report"]) == 0
    assert {"report.html", "temps/0-graph.mlir"} < set(tree())
    listed: Tree = json.loads(tree()["manifest.json"])["files"]
    assert set(tree()) - set(listed) == {"manifest.json", "report.json"}
    fill(Path("out"), {"temps/notes": "mine"})
    assert compile_main(command) == 0
    assert [name for name in tree() if "temps" in name or "html" in name] == ["temps/notes"]
    fill(Path("mine"), {"main.c": "mine"})
    assert compile_main(["m.onnx", "-o", "mine", "--target", "c"]) == 1
    assert tree("mine") == {"main.c": "mine"}
    assert compile_main(["m.onnx", "-o", "mine", "--target", "c", "--force"]) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_end_as_exceptions_do(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal removes partial files; `nohup` is respected."""
    set_handlers: dict[int, object] = {}
    monkeypatch.setattr(signal, "signal", set_handlers.__setitem__)
    run_tool("tool", lambda argv: 0)
    handler = set_handlers[number]
    assert callable(handler)
    with pytest.raises(SystemExit) as end:
        handler(number, None)
    assert end.value.code == 128 + number
    monkeypatch.setattr(signal, "getsignal", lambda number: signal.SIG_IGN)  # pyright: ignore
    set_handlers.clear()
    run_tool("tool", lambda argv: 0)
    assert signal.SIGHUP not in set_handlers
