"""Check that plugins find the files next to them, and that no other module does."""

import os
import py_compile
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ceras_ir.support.plugin_modules import load_plugin, plugin_of, qualified


@pytest.fixture(autouse=True)
def bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)


def load(folder: Path, path: str = "plug.py", **files: str) -> Any:
    """Write files into `folder`, `__` in a name separates folders, and load a plugin."""
    for name, text in files.items():
        file = folder / f"{name.replace('__', '/').replace('/init', '/__init__')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    before = list(sys.path)
    module: ModuleType = load_plugin(str(folder / path))
    assert sys.path == before
    return module


@pytest.mark.parametrize(
    "text",
    [
        "from helper import X",
        "import helper; X = helper.X",
        "import helper as h; X = h.X",
        "from . import helper; X = helper.X",
        "from .helper import X",
        "from library.part import X",
        "import library.part; X = library.part.X",
        "import library.part as part; X = part.X",
        "from library import part; X = part.X",
        "from library import Y as X",
        "from spaces.part import X",
        "def find():\n  import helper\n  return helper.X\nX = find()",
        "X = __import__('helper', globals()).X",
    ],
)
def test_a_file_imports_the_files_next_to_it(tmp_path: Path, text: str):
    files = {"library__part": "X = 7", "library__init": "from .part import X as Y"}
    found = load(tmp_path, plug=text, helper="X = 7", spaces__part="X = 7", **files)
    assert found.X == 7
    assert not {"helper", "library", "spaces"} & set(sys.modules)
    assert not [*tmp_path.rglob("__pycache__")]


@pytest.mark.parametrize(
    "text", ["from .helper import X", "from helper import X", "from kit.helper import X"]
)
@pytest.mark.parametrize("path", ["kit/plug.py", "kit", "kit/__init__.py"])
def test_a_file_of_a_package(tmp_path: Path, text: str, path: str):
    found = load(tmp_path, path, kit__init=text, kit__plug=text, kit__helper="X = 7")
    assert found.X == 7
    assert load_plugin(str(tmp_path / path)) is found
    assert "kit" not in sys.modules


def test_files_of_equal_names_in_different_folders(tmp_path: Path):
    files = {"plug": "from helper import X"}
    found = [load(tmp_path / str(x), **files, helper=f"X = {x}").X for x in (1, 2)]
    assert found == [1, 2]


def test_two_plugins_of_a_folder_share_their_files(tmp_path: Path):
    text = "import helper"
    first = load(tmp_path, plug=text, other=text, helper="")
    assert first.helper is load(tmp_path, "other.py").helper


@pytest.mark.parametrize("name", ["json", "types", "numpy", "xdsl", "ceras_ir"])
def test_no_file_replaces_the_library_or_the_compiler(tmp_path: Path, name: str):
    usual = __import__(name)
    found = load(tmp_path, plug=f"import {name} as found", **{name: "raise ValueError"})
    assert found.found is usual is sys.modules[name]


def test_a_plugin_replaces_no_module(tmp_path: Path):
    usual = sys.modules["json"]
    assert load(tmp_path, "json.py", json="X = 7").X == 7
    assert sys.modules["json"] is usual


def test_a_file_of_the_plugin_precedes_installed_packages(tmp_path: Path):
    usual = sys.modules["pytest"]
    assert load(tmp_path, plug="from pytest import X", pytest="X = 7").X == 7
    assert sys.modules["pytest"] is usual


def test_a_folder_of_data_hides_no_installed_package(tmp_path: Path):
    (tmp_path / "pytest").mkdir()
    assert load(tmp_path, plug="import pytest").pytest is pytest


def test_a_plugin_of_an_installed_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    text = "from ceras_test_kit.helper import X"
    names = {f"ceras_test_kit__{name}": "" for name in ("init", "helper")}
    names["ceras_test_kit__helper"] = "X = object()"
    found = load(tmp_path, "ceras_test_kit/plug.py", **names, ceras_test_kit__plug=text)
    assert found.X is sys.modules["ceras_test_kit.helper"].X


def test_the_source_is_what_runs(tmp_path: Path):
    """Versions of equal length and time are distinguished, unlike byte code."""
    for name in ("plug", "helper"):
        file = tmp_path / f"{name}.py"
        file.write_text("X = 1\n")
        os.utime(file, (1, 1))
        py_compile.compile(str(file))
        file.write_text("X = 2\n")
        os.utime(file, (1, 1))
    assert load(tmp_path).X == load(tmp_path, "helper.py").X == 2


@pytest.mark.parametrize("name", ["two.parts.py", "with-dash.py", "class.py"])
def test_names_that_are_no_identifiers(tmp_path: Path, name: str):
    (tmp_path / "helper.py").write_text("X = 7")
    (tmp_path / name).write_text("from helper import X")
    assert load(tmp_path, name).X == 7


def test_a_missing_module_is_named(tmp_path: Path):
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'nowhere'$"):
        load(tmp_path, plug="import nowhere")


def test_references_of_a_class_to_files_of_the_plugin(tmp_path: Path):
    cls = load(tmp_path, "kit/plug.py", kit__init="", kit__plug="class A: pass", kit__helper="").A
    root = plugin_of(cls.__module__)
    assert qualified("kit.helper:X", cls) == f"{root}.kit.helper:X"
    assert qualified("helper:X", cls) == f"{root}.kit.helper:X"
    assert qualified("xdsl.ir:Use", cls) == "xdsl.ir:Use"
    assert qualified("kit.helper:X", Path) == "kit.helper:X"
