"""Check that the JSON schemas of report.json and manifest.json describe all targets."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Tool
from core import ROOT
from recurrent_networks import NETWORKS, STATES
from xdsl.utils.hints import isa

from ceras_ir.driver.compile import main
from ceras_ir.pipeline.schema import SCHEMA_NAMES, Schema, SchemaName, schema

DIGITS = ROOT / "examples" / "digits"

KINDS: dict[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "number": (int, float),
    "integer": int,
    "boolean": bool,
    "null": type(None),
}

KEYWORDS = {
    *("$schema", "title", "type", "description", "properties", "required"),
    *("additionalProperties", "items", "minimum", "maximum", "const", "unit"),
}
"""The keywords that `errors` implements, and annotations."""


def errors(value: object, rule: dict[str, Any], place: str) -> Iterator[str]:
    """List violations of a schema, for the keywords in our schemas, and undocumented entries."""
    types = rule.get("type", [])
    kinds = [types] if isinstance(types, str) else types
    is_bool = isinstance(value, bool)
    fits = [k for k in kinds if isinstance(value, KINDS[k]) and is_bool == (k == "boolean")]
    if kinds and not fits:
        yield f"{place}: {value!r} is not of type {types}"
        return
    if "const" in rule and value != rule["const"]:
        yield f"{place}: {value!r} is not {rule['const']!r}"
    if isinstance(value, int | float) and not is_bool:
        low, high = rule.get("minimum", value), rule.get("maximum", value)
        yield from () if low <= value <= high else (f"{place}: {value} is out of range",)
    if isa(value, list[object]):
        for number, item in enumerate(value):
            yield from errors(item, rule["items"], f"{place}[{number}]")
    if isa(value, dict[str, object]):
        known, others = rule.get("properties", {}), rule.get("additionalProperties", False)
        yield from (f"{place}: no {key!r}" for key in rule.get("required", ()) if key not in value)
        for key, item in value.items():
            described = known.get(key, others)
            if described is False:
                yield f"{place}: {key!r} is not documented"
            elif described is not True:
                yield from errors(item, described, f"{place}.{key}")


def rules(rule: dict[str, Any], place: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """List a schema and the schemas in it, each with the path."""
    yield place, rule
    inner = dict(rule.get("properties", {}))
    for key in ("items", "additionalProperties"):
        if isinstance(rule.get(key), dict):
            inner[key] = rule[key]
    for key, each in inner.items():
        yield from rules(each, f"{place}/{key}")


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_each_entry_has_a_description_and_each_number_a_unit(name: SchemaName) -> None:
    for place, rule in rules(schema(name)):
        assert set(rule) <= KEYWORDS, place
        assert rule["description"].endswith((".", "noise.")), place
        types = rule["type"]
        numeric = {"integer", "number"} & {*([types] if isinstance(types, str) else types)}
        assert ("unit" in rule) == bool(numeric), place


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_schemas_are_schemas(name: SchemaName) -> None:
    validation = pytest.importorskip("jsonschema")
    validation.Draft202012Validator.check_schema(schema(name))


def test_the_validator_of_this_test_finds_violations() -> None:
    rule: Schema = {
        "type": "object",
        "required": ["a", "b"],
        "properties": {
            "a": {"type": "integer", "minimum": 0},
            "c": {"type": "array", "items": {"type": ["string", "null"]}},
            "e": {"const": 1},
        },
    }
    value = {"a": -1, "c": ["x", None, 1.5], "d": 0, "e": 2}
    assert list(errors(value, rule, "")) == [
        ": no 'b'",
        ".a: -1 is out of range",
        ".c[2]: 1.5 is not of type ['string', 'null']",
        ": 'd' is not documented",
        ".e: 2 is not 1",
    ]
    assert next(errors({"a": True, "b": 1}, rule, "")) == ".a: True is not of type integer"


CALIBRATE = ("--calibrate", str(DIGITS / "digits_calibration.npz"))
CASES = {
    "c": ("c", "--report", "--save-temps", *CALIBRATE),
    "c, float, prefix": ("c", "--name", "net", "--report"),
    "c, memories": ("c", "--regions", "fast:2048,slow:65536", *CALIBRATE),
    "c, microcontroller": ("c", "--board", "nano_33_ble", "--io", "int8", *CALIBRATE),
    "arduino": ("arduino", "--report", *CALIBRATE),
    "dataflow": ("dataflow", "--report", *CALIBRATE),
    "nnet": ("nnet", *CALIBRATE),
    "nnet, board": ("nnet", "--board", "ceras_zcu104", "--report", *CALIBRATE),
    "onnx": ("onnx", "--report", *CALIBRATE),
    "vta": ("vta", "--report", *CALIBRATE),
}


@pytest.mark.sample(5)
@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_files_of_targets(tool: Tool, tmp_path: Path, case: str) -> None:
    target, *options = CASES[case]
    if target not in ("c", "arduino"):
        pytest.importorskip(f"ceras_ir.backends.{target}")
    command = ("ceras-compile", str(DIGITS / "digits.onnx"), "--target", target, *options)
    done = tool(*command, "-o", "out")
    assert done.status == 0, done.stderr
    for name in SCHEMA_NAMES:
        content = json.loads((tmp_path / "out" / f"{name}.json").read_text())
        assert not list(errors(content, schema(name), name))


def test_states_of_a_network(tmp_path: Path) -> None:
    (tmp_path / "gru.onnx").write_bytes(NETWORKS["gru"]().SerializeToString())
    flags = [f"--state={before}={after}" for before, after in STATES["gru"].items()]
    out = tmp_path / "out"
    assert main([str(tmp_path / "gru.onnx"), "--target", "c", "-o", str(out), *flags]) == 0
    for name in SCHEMA_NAMES:
        content = json.loads((out / f"{name}.json").read_text())
        assert not list(errors(content, schema(name), name))
        assert ("states" in content) == (name == "manifest")


@pytest.mark.needs("workbench")
def test_schemas_are_printed(tool: Tool) -> None:
    for name in SCHEMA_NAMES:
        done = tool("ceras-report", "--schema", name)
        assert (done.status, json.loads(done.stdout)) == (0, schema(name))
    done = tool("ceras-report", "--schema", "reprt")
    assert done.status == 2 and "did you mean 'report'?" in done.stderr
