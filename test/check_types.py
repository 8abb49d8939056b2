"""
Run pyright on what is not known to be right: `make check` calls it.

A file is known by the digest of its text, of all that it comes to by imports, and of what is
installed. `build/types.json` keeps the digests of the last run without errors; where it is not
there, as in CI, everything is checked. An import counts for every file that it may mean.
"""

import ast
import json
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from importlib.metadata import distributions
from pathlib import Path
from typing import TypeAlias

Modules: TypeAlias = Mapping[str, Sequence[Path]]

KNOWN = Path("build/types.json")
WHOLE = 0.5
"""Of the files: where more are to be checked, all are."""


def modules_of(text: str) -> list[tuple[int, str]]:
    """What a source imports: how many folders up, 0 if absolute, and the name with dots."""
    found: set[tuple[int, str]] = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            names = [f"{module}.{alias.name}".strip(".") for alias in node.names]
            found |= {(node.level, name) for name in (module, *names)}
        elif isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                found |= {(0, ".".join(parts[:i])) for i in range(1, len(parts) + 1)}
    return sorted(found)


def modules_in(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Files by their names with dots; a package by its `__init__`, a folder not at all."""
    found: dict[str, list[Path]] = {}
    for path in files:
        parts = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
        found.setdefault(".".join(parts), []).append(path)
    return found


def meant(
    source: Path, imported: Iterable[tuple[int, str]], roots: Sequence[Path], modules: Modules
) -> set[Path]:
    """The files that `source` may mean: below the roots, beside itself or in a folder above."""
    parents = [".".join(place.parts) for place in source.parents]
    absolute = dict.fromkeys([*(".".join(root.parts) for root in roots), *parents])
    return {
        path
        for level, name in imported
        for place in ([parents[level - 1]] if level else absolute)
        for path in modules.get(f"{place}.{name}".strip("."), ())
    }


def reached(start: Path, imports: Mapping[Path, set[Path]]) -> set[Path]:
    """All that `start` comes to, itself included."""
    found, waiting = {start}, [start]
    while waiting:
        new = imports[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def keys(root: Path) -> dict[str, str]:
    """The digest of each file that pyright checks, by its path from `root`."""
    settings = (root / "pyproject.toml").read_bytes()
    pyright = tomllib.loads(settings.decode())["tool"]["pyright"]
    folders = [root / name for name in pyright["include"]]
    # What is beside the folders may be imported too.
    paths = [*root.glob("*.py*"), *(path for place in folders for path in place.rglob("*.py*"))]
    files = {
        path.relative_to(root): path.read_bytes()
        for path in paths
        if path.suffix in (".py", ".pyi")
    }
    roots = [Path(), *map(Path, pyright["extraPaths"])]
    modules = modules_in(files)
    imports = {
        source: meant(source, modules_of(text.decode()), roots, modules)
        for source, text in files.items()
    }
    installed = sorted(f"{each.name} {each.version}" for each in distributions())
    own = Path(__file__).read_bytes()
    common = b"\0".join([sys.version.encode(), *map(str.encode, installed), settings, own])
    digests = {path: str(path).encode() + sha256(text).digest() for path, text in files.items()}
    return {
        str(source): sha256(common + b"".join(sorted(map(digests.__getitem__, found)))).hexdigest()
        for source in files
        if not any(p.match(pattern) for pattern in pyright["exclude"] for p in source.parents)
        for found in [reached(source, imports)]
    }


def to_check(now: Mapping[str, str], before: Mapping[str, str]) -> list[str] | None:
    """Files whose digests are others than before; None for all."""
    changed = [source for source, key in now.items() if before.get(source) != key]
    return None if len(changed) > WHOLE * len(now) else changed


def main() -> int:
    now = keys(Path())
    before: dict[str, str] = {}
    if KNOWN.exists():
        before = json.loads(KNOWN.read_text(encoding="utf-8"))
    changed = to_check(now, before)
    if changed != []:
        command = [str(Path(sys.executable).with_name("pyright")), *(changed or ())]
        if status := subprocess.run(command, check=False).returncode:
            return status
    KNOWN.parent.mkdir(exist_ok=True)
    KNOWN.write_text(json.dumps(now), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
