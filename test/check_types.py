"""
Run pyright on files that may have changed since the last run without errors (`make check`).

The key of a file is the digest of the text, of all files that it imports directly or indirectly,
and of the installed packages. `build/types.json` keeps the keys of the last run without errors. If
that file does not exist, as in CI, all files are checked. An import counts for each file that it
may refer to.
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
"""The share of files above which all files are checked."""


def modules_of(text: str) -> list[tuple[int, str]]:
    """List the imports of a source: folders up (0 if absolute), and the dotted name."""
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
    """Map dotted names to files; a package is its `__init__`, and other folders are omitted."""
    found: dict[str, list[Path]] = {}
    for path in files:
        parts = path.parent.parts if path.stem == "__init__" else path.with_suffix("").parts
        found.setdefault(".".join(parts), []).append(path)
    return found


def meant(
    source: Path, imported: Iterable[tuple[int, str]], roots: Sequence[Path], modules: Modules
) -> set[Path]:
    """Return the files that an import may refer to: below the roots, in the folder or above it."""
    parents = [".".join(place.parts) for place in source.parents]
    absolute = dict.fromkeys([*(".".join(root.parts) for root in roots), *parents])
    return {
        path
        for level, name in imported
        for place in ([parents[level - 1]] if level else absolute)
        for path in modules.get(f"{place}.{name}".strip("."), ())
    }


def reached(start: Path, imports: Mapping[Path, set[Path]]) -> set[Path]:
    """Return all files that `start` imports directly or indirectly, and `start`."""
    found, waiting = {start}, [start]
    while waiting:
        new = imports[waiting.pop()] - found
        found |= new
        waiting += new
    return found


def keys(root: Path) -> dict[str, str]:
    """Compute the key of each file that pyright checks, by the path from `root`."""
    settings = (root / "pyproject.toml").read_bytes()
    pyright = tomllib.loads(settings.decode())["tool"]["pyright"]
    folders = [root / name for name in pyright["include"]]
    # Files next to the folders may be imported too.
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
    """List the files with new keys; None if all files are to be checked."""
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
