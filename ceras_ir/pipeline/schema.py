"""
Describe `report.json` and `manifest.json` by JSON schemas, with the unit of each number.

The schemas of this folder have the entries of all targets. A target that adds entries has a partial
schema of the same name in its folder (`Target.schema_parts`). All parts are merged, so that one
schema describes the files of any installed target. The schemas follow JSON Schema 2020-12; `unit`
is an additional keyword, which validators ignore.
"""

import json
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Literal

from xdsl.utils.hints import isa

from ceras_ir.targets.protocol import SCHEMA_SUFFIX, Target
from ceras_ir.targets.registry import all_targets

Schema = dict[str, object]
SchemaName = Literal["report", "manifest"]
SCHEMA_NAMES: tuple[SchemaName, ...] = ("report", "manifest")


def schema(name: SchemaName, targets: Iterable[type[Target]] | None = None) -> Schema:
    """
    Return the JSON schema of `report.json` or `manifest.json`, with the entries that `targets` add
    (default: all targets).
    """
    found = _parsed(
        (files("ceras_ir.pipeline") / f"{name}{SCHEMA_SUFFIX}").read_text(encoding="utf-8")
    )
    for target in all_targets() if targets is None else targets:
        if (part := target.schema_parts().get(name)) is not None:
            _add(found, _parsed(part.read_text(encoding="utf-8")), f"{target.name}: ")
    return found


def schema_text(name: SchemaName) -> str:
    return json.dumps(schema(name), indent=2, ensure_ascii=False) + "\n"


def _parsed(text: str) -> Schema:
    content: object = json.loads(text)
    assert isa(content, Schema)
    return content


def _add(found: Schema, part: Mapping[str, object], place: str) -> None:
    """
    Add the entries of the schema `part` to `found` in place. An entry in both must be equal in
    both. `place` is the path of the entry, for the error.
    """
    for key, value in part.items():
        known = found.setdefault(key, value)
        if isa(known, Schema) and isa(value, Schema):
            _add(known, value, f"{place}{key}.")
        else:
            assert known == value, f"{place}{key} has another description in another schema"
