"""Check board files: each field is checked, and a damaged file is an `InputError`."""

import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Literal

import pytest

from ceras_ir.backends.arduino.target import ArduinoTarget
from ceras_ir.backends.c.machines import CORES, parse_board
from ceras_ir.backends.c.target import CTarget
from ceras_ir.support.diagnostics import InputError, UnsupportedError
from ceras_ir.support.options import field_docs
from ceras_ir.targets.board_files import board_field, entry_of, read_fields
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets

WITH_BOARDS = [target for target in all_targets() if target.board_types()]
BOARDS = [
    pytest.param(target, name, id=f"{target.name}-{name}")
    for target in WITH_BOARDS
    for name in target.boards()
]
HUGE = "9" * 4000
VALUES = (
    HUGE,
    "0x" + "f" * 9000,
    "-1",
    "true",
    "nan",
    "-inf",
    "1e300",
    "1979-05-27",
    '"text"',
    '"a\\u0000b"',
    "[[[]]]",
    "[1]",
    "{}",
    "{a = 1}",
    "[{}]",
)


@dataclass(frozen=True)
class Part:
    """A part of a toy board."""

    size: int = board_field(minimum=1, maximum=8, is_power_of_two=True)
    """The size."""


@dataclass(frozen=True)
class Toy:
    """A toy board."""

    title: str = board_field(example='"Toy"')
    """The title."""
    rate: float = board_field(is_positive=True)
    """The rate."""
    kind: Literal["slow", "fast"] = board_field("slow")
    """The kind."""
    part: Part | None = board_field(None)
    """The part."""
    parts: dict[str, Part] = board_field(None, choices=("left", "right"))
    """The named parts."""
    listed: tuple[Part, ...] = board_field(())
    """The listed parts."""
    address: int = board_field(0, multiple=16, accepts_text=True)
    """The address."""
    width: int = board_field(8, minimum=8, maximum=8, unsupported="bytes have 8 bits")
    """The width."""


GOOD: dict[str, object] = {"title": "Toy", "rate": 2}


def test_values():
    given = {"part": {"size": 4}, "parts": {"left": {"size": 2}}, "listed": [{"size": 8}]}
    toy = read_fields(Toy, GOOD | given | {"address": "0x20"}, "toy.toml")
    assert toy == Toy("Toy", 2.0, "slow", Part(4), {"left": Part(2)}, (Part(8),), 32)
    assert isinstance(toy.rate, float)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"titel": 1}, r"a board has no field 'titel'; did you mean 'title'\? \(fields: title, "),
        ({"part": {"siez": 1}}, r"table \[part\] of a board has no field 'siez'; did you mean 'si"),
        ({"parts": {"lef": {}}}, r"table \[parts\] of a board has no field 'lef'; did you mean"),
        ({"parts": {"left": {}}}, r"table \[parts.left\] of the board has no field 'size': add it"),
        ({"title": 3}, 'title must be text such as "Toy", got 3'),
        ({"title": "a\nb"}, "title must be text such as"),
        ({"rate": 0}, "rate must be a number > 0, got 0"),
        ({"rate": True}, "rate must be a number > 0, got True"),
        ({"rate": float("nan")}, "rate must be a number > 0, got nan"),
        ({"rate": 1e300}, r"rate must be a number > 0 and < 1e\+12, got 1e\+300"),
        ({"kind": "medium"}, "kind must be one of slow, fast, got 'medium'"),
        ({"part": 3}, r"expected a table \[part\], got 3"),
        ({"part": {"size": 3}}, r"size must be a power of two in \[1, 8\], got 3"),
        ({"part": {"size": 16}}, r"size must be a power of two in \[1, 8\], got 16"),
        ({"listed": {}}, "listed must be a list of tables, got {}"),
        ({"address": 17}, "a multiple of 16, got 17"),
        ({"address": "here"}, "a multiple of 16, got 'here'"),
        ({"address": 1 << 70}, r"an integer in \[0, 2.48\]"),
        ({"rate": 1 << 20000}, "got a value of thousands of digits"),
    ],
)
def test_wrong_values(change: dict[str, object], message: str):
    with pytest.raises(InputError, match=message) as raised:
        read_fields(Toy, GOOD | change, "toy.toml")
    assert raised.value.file == "toy.toml"
    assert len(raised.value.message) < 500


def test_missing_fields():
    with pytest.raises(InputError, match="has no field 'title': add title = \"Toy\", text"):
        read_fields(Toy, {}, None)
    with pytest.raises(InputError, match="has no field 'rate': add it as a number > 0"):
        read_fields(Toy, {"title": "Toy"}, None)


def test_unsupported_values():
    with pytest.raises(UnsupportedError, match=r"unsupported width 9: bytes have 8 bits .width is"):
        read_fields(Toy, GOOD | {"width": 9}, None)


@pytest.mark.parametrize("target", WITH_BOARDS, ids=lambda target: target.name)
def test_each_field_is_described(target: type[Target]):
    kinds = list(target.board_types())
    for kind in kinds:
        docs = field_docs(kind)
        assert [each.name for each in fields(kind) if not docs.get(each.name)] == []
        kinds += [entry for each in fields(kind) if (entry := entry_of(each.type)) is not None]


@pytest.mark.sample(20)
@pytest.mark.parametrize(("target", "name"), BOARDS)
def test_damaged_boards(target: type[Target], name: str, tmp_path: Path):
    """Each field with each wrong value gives a board or an error, and never another exception."""
    target.check_board(name)
    text = target.boards()[name].read_text("utf-8")
    target.check_board(str(_written(tmp_path, text.encode())))
    lines = text.splitlines()
    for i, line in enumerate(lines):
        field, equals, _ = line.partition(" = ")
        for value in VALUES if equals and not line.startswith("#") else ():
            changed = [*lines[:i], f"{field} = {value}", *lines[i + 1 :]]
            _check(target, _written(tmp_path, "\n".join(changed).encode()))
    for cut in range(0, len(text), 7):
        _check(target, _written(tmp_path, text[:cut].encode()))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (bytes(range(256)), "cannot read the board: the file is not UTF-8 text"),
        (b"\0" * 100, "not TOML"),
        (b"title = " + b"[" * 100_000, "unsupported TOML: nested too deeply"),
        (b"title = " + b"9" * 5000, "not TOML"),
        (b"", "has no field"),
    ],
)
@pytest.mark.parametrize("target", WITH_BOARDS, ids=lambda target: target.name)
def test_files_that_describe_no_board(
    target: type[Target], content: bytes, message: str, tmp_path: Path
):
    with pytest.raises(InputError, match=message):
        target.check_board(str(_written(tmp_path, content)))


def test_fields_of_arduino(tmp_path: Path):
    """Target c compiles for a microcontroller that arduino-cli does not know."""
    text = CTarget.boards()["nano_33_ble"].read_text("utf-8")
    for field in ("fqbn", "architecture"):
        board = str(_written(tmp_path, text.replace(f"{field} =", "# =").encode()))
        CTarget.check_board(board)
        with pytest.raises(InputError, match=f"the board has no field '{field}': add the "):
            ArduinoTarget.check_board(board)


def test_unknown_cores_are_answered_by_the_list(tmp_path: Path):
    text = CTarget.boards()["nano_33_ble"].read_text("utf-8").replace("cortex-m4", "cortex-a53")
    with pytest.raises(InputError, match=f"cores: {', '.join(CORES)}"):
        CTarget.check_board(str(_written(tmp_path, text.encode())))


def test_flags_of_another_core_are_refused(tmp_path: Path):
    shipped = CTarget.boards()["alif_e7_hp"].read_text("utf-8")

    def check_core(core: str) -> None:
        text = f'{shipped}flags = ["-mcpu={core}", "-mthumb", "-mfloat-abi=hard"]\n'
        CTarget.check_board(str(_written(tmp_path, text.encode())))

    check_core("cortex-m55+nomve.fp")
    with pytest.raises(InputError, match='selects another core than core = "cortex-m55"'):
        check_core("cortex-m4")


def test_the_core_has_flags(tmp_path: Path):
    text = CTarget.boards()["pico"].read_text("utf-8")
    assert parse_board(tomllib.loads(text), "pico").flags == ("-mcpu=cortex-m0plus", "-mthumb")
    given = 'flags = ["-mcpu=cortex-m0plus"]'
    assert parse_board(tomllib.loads(f"{text}{given}\n"), "pico").flags == ("-mcpu=cortex-m0plus",)


def _written(folder: Path, content: bytes) -> Path:
    (path := folder / "mine.toml").write_bytes(content)
    return path


def _check(target: type[Target], board: Path) -> None:
    try:
        target.check_board(str(board))
    except InputError as error:
        assert error.file == str(board)
        assert len(error.message) < 700
