"""
Hash the files of a compiled folder by kind, without comments and without provenance.

Two revisions of the compiler have equal hashes if programs, streams, circuits, weights and figures
are equal. The normalization removes the following text and fields, which are not results:

- comments of C, C++, SystemVerilog, Python, make and CMake, and docstrings of Python;
- `producer_version` of ONNX files;
- the fields in `LEFT_OUT` of `report.json` and `manifest.json`: provenance (command, versions,
  path and digest of the model), digests of files, names of passes, sentences, and the stack, which
  depends on the installed compiler;
- files in `temps/`, except the quantized text, or the fused text of a float network.
"""

import io
import json
import re
import tokenize
from collections.abc import Iterator, Mapping
from hashlib import sha256
from pathlib import Path

import onnx
from xdsl.utils.hints import isa

HASH_DIGITS = 16

QUANTIZED = re.compile(r"\d+-quantized-graph\.mlir")
FUSED = re.compile(r"\d+-fused-graph\.mlir")

FLOAT_REASON = re.compile(rb'graph\.float_reason = "(?:[^"\\]|\\.)*"')
"""A sentence for reports."""

KINDS = {
    **dict.fromkeys((".c", ".h", ".cc", ".cpp", ".hpp", ".ino", ".s", ".S", ".inc"), "c"),
    **dict.fromkeys((".sv", ".svh", ".v", ".vh"), "verilog"),
    ".mem": "memories",
    ".nnet": "nnet",
    ".insns": "streams",
    ".bin": "binary",
    ".weights": "binary",
    ".onnx": "onnx",
}
"""Kinds by suffix; other files are of the kind `build`."""

FIGURES = ("report.json", "manifest.json")

LEFT_OUT = {
    *("provenance", "sha256", "unchecked", "files", "recipe"),
    *("reason", "float_reason", "modelled", "model", "machine", "note", "remedy"),
    *("stack", "stack_bytes", "board_stack_bytes"),
}

_TOKEN = r"""
    (?P<comment> // (?: \\\r?\n | [^\n] )* | /\* .*? \*/ )
  | (?P<space> (?: \s | \\\r?\n )+ )
  | (?P<text> " (?: \\. | [^"\\\n] )* " %s )
  | (?P<other> [A-Za-z0-9_]+ | . )
"""

C_TOKEN = re.compile(_TOKEN % r"| ' (?: \\. | [^'\\\n] )+ '", re.VERBOSE | re.DOTALL)
VERILOG_TOKEN = re.compile(_TOKEN % "", re.VERBOSE | re.DOTALL)
"""In Verilog an apostrophe starts the base of a number, as in `8'hff`."""


def without_comments(text: str, token: re.Pattern[str]) -> str:
    """Return the tokens of a source text, separated by a single blank or newline."""
    parts: list[str] = []
    space = ""
    for match in token.finditer(text):
        match match.lastgroup:
            case "comment":
                space = space or " "
            case "space":
                space = "\n" if "\n" in match[0].replace("\\\n", "") or "\n" in space else " "
            case _:
                parts += (space, match[0]) if parts else (match[0],)
                space = ""
    return "".join(parts) + "\n"


def without_docstrings(text: str) -> str:
    """Return the tokens of a Python file without comments, and without string statements."""
    kept: list[str] = []
    line: list[tokenize.TokenInfo] = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.NL):
            continue
        line.append(token)
        if token.type == tokenize.NEWLINE:
            moves = [t for t in line if t.type in (tokenize.INDENT, tokenize.DEDENT)]
            words = [t for t in line if t not in moves]
            is_docstring = all(t.type == tokenize.STRING for t in words[:-1])
            rest = moves if is_docstring else line
            kept += (f"{tokenize.tok_name[t.type]} {t.string.strip(' ')}" for t in rest)
            line = []
    return "\n".join(kept) + "\n"


def without_hash_comments(text: str) -> str:
    """Return a file of make, CMake or YAML without lines that are comments."""
    lines = (line.rstrip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.lstrip().startswith("#")) + "\n"


def figures(value: object) -> object:
    """Return a report or manifest without the fields in `LEFT_OUT`."""
    if isa(value, dict[str, object]):
        return {key: figures(entry) for key, entry in value.items() if key not in LEFT_OUT}
    if isa(value, list[object]):
        return [figures(entry) for entry in value]
    return value


def normalized(path: Path, kind: str) -> bytes:
    """Return the content of a file after normalization."""
    data = path.read_bytes()
    if kind == "onnx":
        model = onnx.load_model_from_string(data)
        model.producer_version = ""
        return model.SerializeToString(deterministic=True)
    if kind == "figures":
        return json.dumps(figures(json.loads(data)), indent=1).encode()
    if kind in ("quantized", "fused"):
        return FLOAT_REASON.sub(b'graph.float_reason = ""', data)
    if kind in ("nnet", "streams", "binary", "memories"):
        return data
    text = data.decode()
    if kind == "c":
        return without_comments(text, C_TOKEN).encode()
    if kind == "verilog":
        return without_comments(text, VERILOG_TOKEN).encode()
    if path.suffix == ".py":
        return without_docstrings(text).encode()
    return without_hash_comments(text).encode()


def kinds(folder: Path) -> Iterator[tuple[str, Path]]:
    """List the hashed files of a compiled folder with the kind of each, sorted by name."""
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        name = path.relative_to(folder)
        if name.parts[0] == "temps":
            if QUANTIZED.fullmatch(name.name):
                yield "quantized", path
            elif FUSED.fullmatch(name.name):
                yield "fused", path
        elif str(name) in FIGURES:
            yield "figures", path
        else:
            yield KINDS.get(path.suffix, "build"), path


def artefacts(folder: Path) -> dict[str, dict[str, bytes]]:
    """Return the normalized files of a compiled folder, by kind and name."""
    found: dict[str, dict[str, bytes]] = {}
    for kind, path in kinds(folder):
        # The digits count levels. A new level must not change hashes.
        name = re.sub(r"^temps/\d+-", "temps/", path.relative_to(folder).as_posix())
        found.setdefault(kind, {})[name] = normalized(path, kind)
    if "quantized" in found:
        # The quantized text is derived from the fused text.
        found.pop("fused", None)
    return found


def hash_of(files: Mapping[str, bytes]) -> str:
    """Hash names and contents."""
    total = sha256()
    for name, data in sorted(files.items()):
        total.update(f"{name} {len(data)}\n".encode())
        total.update(data)
    return total.hexdigest()[:HASH_DIGITS]
