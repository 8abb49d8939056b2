"""Check that `make check` checks the types of all files that may have changed."""

from collections.abc import Callable
from pathlib import Path

import check_types
import pytest

FILES = {
    "pyproject.toml": """\
[tool.pyright]
include = ["package", "test"]
exclude = ["**/Output", "test/lit"]
extraPaths = ["test"]
""",
    "package/__init__.py": "from package.a import A\n",
    "package/a.py": "class A: ...\n",
    "package/b.py": "from .a import A\n",
    "package/inner/__init__.py": "",
    "package/inner/c.py": "def late():\n    from .. import b\n    return b.A\n",
    "package/alone.py": "import sys\n",
    "test/data.py": "NUMBER = 1\n",
    "test/test_b.py": "from data import NUMBER\nfrom package import b\n",
    "test/test_whole.py": "import package\n",
    "test/parts/beside.py": "",
    "test/parts/test_beside.py": "import beside\n",
    "test/lit/server.py": "",
    "test/Output/made.py": "",
}
LEFT_OUT = {"pyproject.toml", "test/lit/server.py", "test/Output/made.py"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def test_all_that_pyright_checks_has_a_digest(tree: Path):
    assert set(check_types.keys(tree)) == set(FILES) - LEFT_OUT


def append(name: str) -> Callable[[Path], object]:
    return lambda tree: (tree / name).write_text(FILES.get(name, "") + "# changed\n")


def remove(name: str) -> Callable[[Path], object]:
    return lambda tree: (tree / name).unlink()


OF_A = {
    *("package/__init__.py", "package/a.py", "package/b.py", "package/inner/c.py"),
    *("test/test_b.py", "test/test_whole.py"),
}


@pytest.mark.parametrize(
    ("change", "checked"),
    [
        (append("package/alone.py"), {"package/alone.py"}),
        (append("package/a.py"), OF_A),
        (append("package/inner/c.py"), {"package/inner/c.py"}),
        (append("test/data.py"), {"test/data.py", "test/test_b.py"}),
        (append("test/parts/beside.py"), {"test/parts/beside.py", "test/parts/test_beside.py"}),
        # From now on, a new file may be the target of an import.
        (append("package/data.py"), {"package/data.py"}),
        (append("data.py"), {"data.py", "test/test_b.py"}),
        (append("test/package/b.py"), {"test/package/b.py", "test/test_b.py"}),
        (append("test/sys.py"), {"test/sys.py", "package/alone.py"}),
        (remove("package/a.py"), OF_A - {"package/a.py"}),
        (append("pyproject.toml"), set(FILES) - LEFT_OUT),
    ],
)
def test_what_imports_a_change_is_checked(
    tree: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Path], object], checked: set[str]
):
    monkeypatch.setattr(check_types, "WHOLE", 1.0)
    before = check_types.keys(tree)
    (tree / "test/package").mkdir()
    change(tree)
    assert set(check_types.to_check(check_types.keys(tree), before) or ()) == checked


def test_what_is_installed_counts(tree: Path, monkeypatch: pytest.MonkeyPatch):
    before = check_types.keys(tree)
    assert check_types.to_check(check_types.keys(tree), before) == []
    monkeypatch.setattr(check_types, "distributions", list)
    assert check_types.to_check(check_types.keys(tree), before) is None
