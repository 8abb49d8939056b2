"""
Create mutants of JSON and TOML files.

The files are the manifests of compiled folders, the boards of all targets, and studies.
"""

import json
import shutil
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from random import Random

from xdsl.utils.hints import isa

Table = dict[str, object]
List = list[object]

VALUES: tuple[object, ...] = (
    *(None, True, 0, 1, -1, 2, 1 << 31, 1 << 63, 10**15, 10**400, 0.5, -0.0, 1e308, float("inf")),
    *(float("nan"), "", "x", "../x", "/dev/null", "a\0b", "é" * 300, List(), Table()),
    *({"x": 1}, [1, 2], [List()]),
)


def mutate(random: Random, content: object) -> object:
    """Return `content` after one to three random changes."""
    for _ in range(random.randint(1, 3)):
        places = list(_places(content))
        if not places:
            return random.choice(VALUES)
        container, key = random.choice(places)
        value = container[key]  # pyright: ignore
        match random.randrange(5):
            case 0:
                del container[key]  # pyright: ignore
            case 1 if isa(container, List):
                container.append(value)  # pyright: ignore
            case 1 if isa(container, Table):
                container[random.choice(("x", "files", "LOG_BLOCK", "title"))] = value
            case 2:
                other, name = random.choice(places)
                taken: object = other[name]  # pyright: ignore
                container[key] = 1 if isinstance(taken, dict | list) else taken  # pyright: ignore
            case _:
                container[key] = random.choice(VALUES)  # pyright: ignore
    return content


def _places(content: object) -> Iterator[tuple[Table | List, str | int]]:
    """List the entries of all nested lists and tables."""
    if isa(content, Table):
        for key in list(content):
            yield content, key
            yield from _places(content[key])
    elif isa(content, List):
        for index in range(len(content)):
            yield content, index
            yield from _places(content[index])


def as_toml(content: object, prefix: str = "") -> str:
    """Print tables as TOML; values that TOML cannot represent become invalid text."""
    if not isa(content, Table):
        return repr(content)
    lines: list[str] = []
    for name, value in content.items():
        if not isinstance(value, dict):
            text = json.dumps(value) if isinstance(value, str | bool | list) else str(value).lower()
            lines.append(f"{json.dumps(name)} = {text}\n")
    for name, value in content.items():
        if isa(value, Table):
            path = f"{prefix}{json.dumps(name)}"
            lines += [f"[{path}]\n", as_toml(value, f"{path}.")]
    return "".join(lines)


def folder(random: Random, compiled: Path, place: Path) -> None:
    """Copy a compiled folder to `place`, with another manifest or board, or with less data."""
    shutil.copytree(compiled, place)
    names = sorted(path.name for path in place.iterdir() if path.is_file())
    match random.randrange(8):
        case 0:
            (place / random.choice(names)).unlink()
        case 1:
            path = place / random.choice(names)
            path.write_bytes(path.read_bytes()[: random.randrange(path.stat().st_size + 1)])
        case _:
            tables = [name for name in names if name in ("manifest.json", "vta_config.json")]
            path = place / random.choice(tables)
            path.write_text(json.dumps(mutate(random, json.loads(path.read_text()))))


STUDY: Table = {
    "name": "s",
    "models": {"m": {"file": "m.onnx", "inputs": "x.npz", "samples": 1}},
    "options": {"prune": ["", "sparsity=0.3"], "batch": [1, 2]},
    "axes": {"precision": {"float": {"quantize": "none"}, "int8": {"quantize": "int8"}}},
    "targets": {
        "c": {},
        "vta": {"board": ["pynq"], "vary": {"LOG_BLOCK": [4, 5]}},
        "arduino": {"board": ["due"]},
    },
    "objectives": {"minimize": ["flash_bytes"], "constraints": ["flash < 60000 and macs > 1"]},
    "figures": {"cost": "flash / 1000", "euros": {"precision": {"float": 1, "int8": 2}}},
    "search": {"sampler": "random", "trials": 3, "seed": 1},
}


def study(random: Random) -> str:
    """Return the text of a mutant of a study."""
    return as_toml(mutate(random, json.loads(json.dumps(STUDY))))


def board(random: Random, target: str) -> tuple[str, str]:
    """Return the name and text of a mutant of a board of `target`."""
    known = (files(f"ceras_ir.backends.{target}") / "boards").iterdir()
    chosen = random.choice(sorted(known, key=lambda file: file.name))
    text = chosen.read_text("utf-8")
    if chosen.name.endswith(".json"):
        return "board.json", json.dumps(mutate(random, json.loads(text)))
    return "board.toml", as_toml(mutate(random, tomllib.loads(text)))
