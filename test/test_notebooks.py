"""Check that the notebooks in `examples` run, and that each cell shows a valid result."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples").rglob("*.ipynb"))

pytestmark = pytest.mark.slow


def cells(path: Path) -> list[str]:
    """Return the code of a notebook."""
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert content["nbformat"] == 4
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    # Outputs would become outdated, and the repository would grow with each run.
    assert not any(cell["outputs"] or cell["execution_count"] for cell in code)
    return ["".join(cell["source"]) for cell in code]


def run_cell(source: str, names: dict[str, object]) -> object:
    """Run a cell as Jupyter does; return the value of a last expression."""
    tree = ast.parse(source)
    last = tree.body.pop()
    if not isinstance(last, ast.Expr):
        tree.body.append(last)
    exec(compile(tree, "cell", "exec"), names)
    if not isinstance(last, ast.Expr):
        return None
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(path.parent)
    names: dict[str, object] = {"__name__": "__main__"}
    shown = [run_cell(source, names) for source in cells(path)]
    pages = [str(show()) for each in shown if (show := getattr(each, "_repr_html_", None))]
    assert len(pages) >= 3
    assert all(page.count("<table") == page.count("</table>") > 0 for page in pages)


def test_there_are_notebooks() -> None:
    assert NOTEBOOKS
