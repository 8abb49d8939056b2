"""Implement `ceras-nnet`: dump, check and compare nnet files, and write engine and circuits."""

import difflib
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from ceras_ir.command.exit_status import naming, run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.support.user_files import read_bytes


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-nnet", _nnet, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-nnet`."""
    parser = ToolParser(
        "ceras-nnet",
        description="Dump, check and compare nnet files, or write the engine and the circuits.",
        epilog="Exit status: 0 success, 1 invalid file or files differ, 2 wrong usage.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    dump = commands.add_parser("dump", help="print all tables of a file")
    dump.add_argument("file", metavar="MODEL.nnet")
    dump.add_argument("--bytes", action="store_true", help="print each byte with the field")
    check = commands.add_parser("check", help="check a file, and load it in the engine")
    check.add_argument("file", metavar="MODEL.nnet")
    diff = commands.add_parser("diff", help="print the differences of two files; status 1 if any")
    diff.add_argument("file", metavar="A.nnet")
    diff.add_argument("other", metavar="B.nnet")
    engine = commands.add_parser("engine", help="write the C++ sources of the engine to a folder")
    engine.add_argument("file", metavar="FOLDER")
    circuits = commands.add_parser(
        "circuits", help="write the circuits, a block design and a device tree to a folder"
    )
    circuits.add_argument("file", metavar="FOLDER")
    circuits.add_argument(
        "--lanes",
        type=int,
        choices=(4, 8, 16, 32),
        default=16,
        help="rows and columns of the array",
    )
    circuits.add_argument(
        "--bus", type=int, choices=(8, 16), default=16, help="width of the memory bus in bytes"
    )
    return parser


def _nnet(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)

    from ceras_ir.backends.nnet.engine import write_sources
    from ceras_ir.backends.nnet.reader import dump

    path: str = arguments.file
    if arguments.command == "engine":
        write_sources(Path(path))
        return 0
    if arguments.command == "circuits":
        from ceras_ir.backends.nnet.circuits import CircuitSize, write_board_files

        write_board_files(Path(path), CircuitSize(arguments.lanes, arguments.bus))
        return 0
    data = read_bytes(path)
    match arguments.command:
        case "dump" if arguments.bytes:
            from ceras_ir.backends.nnet.reader import annotate

            sys.stdout.write(_checked(annotate, data, path))
        case "dump":
            sys.stdout.write(_checked(dump, data, path))
        case "check":
            summary = _checked(_summary, data, path)
            sys.stdout.write(f"{summary}{_loaded(Path(path))}\n")
        case _:
            other: str = arguments.other
            texts = [_checked(dump, data, path), _checked(dump, read_bytes(other), other)]
            a, b = (text.splitlines(keepends=True) for text in texts)
            found = list(difflib.unified_diff(a, b, path, other, n=0))
            sys.stdout.writelines(found)
            return 1 if found else 0
    return 0


def _summary(data: bytes) -> str:
    from ceras_ir.backends.nnet.reader import read

    file = read(data)
    fpga = sum(layer.device == "fpga" for layer in file.layers)
    return (
        f"valid: {len(file.layers)} layers, {fpga} of them on the FPGA, "
        f"arena {file.arena_size:,} bytes, file {len(data):,} bytes"
    )


def _loaded(path: Path) -> str:
    # The reader checks the format. Limits of sizes, work and accumulators, and the rules of the
    # circuits, are those of the engine.
    from ceras_ir.backends.nnet.engine import load_in_engine
    from ceras_ir.support.native import has_compiler

    if not has_compiler():
        return "; not loaded in the engine, which needs a C++ compiler"
    load_in_engine(path)
    return ", loaded in the engine"


def _checked(form: Callable[[bytes], str], data: bytes, path: str) -> str:
    # Errors name the file.
    with naming(path):
        return form(data)
