"""Check the VS Code extension: its files are complete, and its grammar knows our dialects."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from xdsl.utils.hints import isa

from ceras_ir.universe import CERAS_UNIVERSE

FOLDER = Path(__file__).parents[3] / "editors" / "vscode"
Object = dict[str, object]


def read(name: str) -> Object:
    content: object = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    assert isa(content, Object)
    return content


def patterns(entry: object) -> Iterator[Object]:
    """List all patterns of a grammar."""
    if isa(entry, list[object]):
        for each in entry:
            yield from patterns(each)
    if isa(entry, Object):
        yield entry
        for each in entry.values():
            yield from patterns(each)


def scope(text: str) -> str | None:
    """Return the name of the first pattern of the grammar that matches at the start."""
    grammar = read("syntaxes/mlir.tmLanguage.json")
    repository = grammar["repository"]
    assert isa(repository, Object)
    order = next(patterns(repository["any"]))["patterns"]
    assert isa(order, list[dict[str, str]])
    for part in order:
        for each in patterns(repository[part["include"].removeprefix("#")]):
            found = each.get("match", each.get("begin"))
            if isinstance(found, str) and re.match(found, text):
                name = each.get("name")
                return str(name) if name else str(each.get("captures"))
    return None


def test_files_that_the_package_names_exist():
    package = read("package.json")
    text = json.dumps(package)
    for name in re.findall(r'"\./((?!dist)[^"]+)"', text):
        assert (FOLDER / name).is_file(), name
    assert (FOLDER / "extension.js").is_file() and "extension.js" in text


def test_every_dialect_of_ours_has_a_colour():
    for name in CERAS_UNIVERSE.all_dialects:
        assert scope(f"{name}.op") == "support.function.ceras.mlir", name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("%x#1", "variable.other.mlir"),
        ("@main", "entity.name.function.mlir"),
        ("^bb0", "entity.name.label.mlir"),
        ("!quant.uniform<i8:f32, 0.5>", "storage.type.dialect.mlir"),
        ("#mem.block<1, 2, 3>", "support.constant.attribute.mlir"),
        ("tensor<1xf32>", "storage.type.mlir"),
        ("func.func @main", "support.function.mlir"),
        ("// a comment", "comment.line.double-slash.mlir"),
        ('"generic.op"', "string.quoted.double.mlir"),
        ("0x1F", "constant.numeric.hex.mlir"),
        ("-12.5e-3,", "constant.numeric.mlir"),
    ],
)
def test_words_have_their_scopes(text: str, name: str):
    assert scope(text) == name


def test_directives_of_tests_are_marked():
    assert "keyword.control.directive.mlir" in str(scope("// CHECK-NEXT: graph.conv2d"))


@pytest.mark.skipif(shutil.which("node") is None, reason="no node")
def test_the_script_is_sound():
    subprocess.run(["node", "--check", FOLDER / "extension.js"], check=True)
