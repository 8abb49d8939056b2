"""
Write copies of a board description in which some fields have other values.

A field is specified by the key in the description, after the names of the tables and dots, such as
`cpu.macs_per_us`. A copy of a description in JSON is in JSON too, otherwise in TOML.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

from xdsl.utils.hints import isa

from ceras_ir.command.output_files import write_file
from ceras_ir.support.diagnostics import InputError, UsageError, did_you_mean
from ceras_ir.support.files import key_of, parse_toml
from ceras_ir.support.user_files import read_text
from ceras_ir.targets.board_files import TOML, TomlTable
from ceras_ir.targets.protocol import Target

Ranges = Mapping[str, Sequence[object]]


def board_variants(
    target: type[Target], boards: Sequence[str], ranges: Ranges, folder: Path
) -> dict[str, str]:
    """
    Write a board file into `folder` for each of `boards` and each combination of values in
    `ranges`, which maps fields to lists. Return the paths by a label such as `pico clock=133`.
    """
    found: dict[str, str] = {}
    for board in boards:
        described, suffix = _description(target, board)
        for values in product(*ranges.values()):
            changes = dict(zip(ranges, values, strict=True))
            content = _changed(described, changes, board)
            text = _spelled(content, suffix)
            name = f"{Path(board).stem}-{key_of(text)[:8]}{suffix}"
            folder.mkdir(parents=True, exist_ok=True)
            write_file(str(folder / name), text.encode())
            label = " ".join([board, *(f"{key}={value}" for key, value in changes.items())])
            found[label] = str(folder / name)
    return found


def _description(target: type[Target], board: str) -> tuple[TomlTable, str]:
    target.check_board(board)
    built_in = target.boards().get(board)
    text = read_text(board) if built_in is None else built_in.read_text("utf-8")
    suffix = next((each for each in target.board_suffixes if board.endswith(each)), TOML)
    content: object = json.loads(text) if suffix == ".json" else parse_toml(text, board)
    if not isa(content, TomlTable):
        raise InputError("is no table of fields", board)
    return content, suffix


def _changed(described: TomlTable, changes: Mapping[str, object], board: str) -> TomlTable:
    content: TomlTable = json.loads(json.dumps(described))
    for path, value in changes.items():
        *tables, field = path.split(".")
        place = content
        for name in tables:
            inner = place.get(name)
            if not isa(inner, TomlTable):
                raise UsageError(f"board '{board}' has no table '{name}' for '{path}'")
            place = inner
        if field not in place:
            known = did_you_mean(field, place) or f" (it has {', '.join(place)})"
            raise UsageError(f"board '{board}' has no field '{path}'{known}")
        place[field] = value
    return content


def _spelled(content: TomlTable, suffix: str) -> str:
    if suffix == ".json":
        return json.dumps(content, indent=2) + "\n"
    return "\n".join(_toml(content, ())) + "\n"


def _toml(table: TomlTable, path: tuple[str, ...]) -> Iterator[str]:
    # Strings, numbers, booleans and lists have the same text in JSON.
    inner = {key: value for key, value in table.items() if isa(value, TomlTable)}
    for key, value in table.items():
        if key not in inner:
            yield f"{json.dumps(key)} = {_toml_value(value)}"
    for key, value in inner.items():
        yield f"[{'.'.join(map(json.dumps, (*path, key)))}]"
        yield from _toml(value, (*path, key))


def _toml_value(value: object) -> str:
    if isa(value, list[object]):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isa(value, TomlTable):
        return f"{{{', '.join(f'{json.dumps(k)} = {_toml_value(v)}' for k, v in value.items())}}}"
    return json.dumps(value)
