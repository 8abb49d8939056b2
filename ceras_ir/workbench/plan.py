"""
Implement `ceras-plan`: find byte offsets for a memory-planning instance by exact search.

The instance is a table of requests (`id,lower,upper,size`) with live ranges `[lower, upper)`. The
result is the same table with a column of offsets.
"""

import argparse
import csv
import io
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser, add_output, add_time_limit
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.user_files import read_bytes

if TYPE_CHECKING:
    from ceras_ir.transforms.memory.offsets import Span

REQUEST_COLUMNS = ("id", "lower", "upper", "size")
MAX_INTEGER = 1 << 62
DEFAULT_TIME_LIMIT_S = 60.0
EXIT_UNSOLVED = 4
"""The exit status if the time limit is reached without a plan or a proof."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-plan", _plan, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-plan`."""
    parser = ToolParser(
        "ceras-plan",
        description="Place memory requests below a capacity so that overlapping live ranges "
        "share no bytes, or prove that this is impossible.",
        epilog="Exit status: 0 solved, or --check found no error; 1 bad input, wrong plan, or "
        f"proven impossible; 2 wrong usage; {EXIT_UNSOLVED} not solved within the time limit.",
    )
    parser.add_argument(
        "input",
        metavar="IN.csv",
        help="columns id,lower,upper,size; live range [lower, upper); -: stdin",
    )
    parser.add_argument(
        "--capacity", metavar="BYTES", type=_bytes, required=True, help="the size of the memory"
    )
    end = parser.add_mutually_exclusive_group(required=True)
    add_output(
        end, "OUT.csv", "write IN.csv with a column offset; -: stdout, with the summary on stderr"
    )
    end.add_argument("--check", action="store_true", help="only check the offsets in IN.csv")
    add_time_limit(
        parser, _seconds, "stop after this time (default: %(default)s)", DEFAULT_TIME_LIMIT_S
    )
    return parser


def _bytes(text: str) -> int:
    if not 0 <= (value := int(text)) < MAX_INTEGER:
        raise argparse.ArgumentTypeError(f"expected bytes in [0, 2^62), got {text}")
    return value


def _seconds(text: str) -> float:
    if not 0 < (value := float(text)) < math.inf:
        raise argparse.ArgumentTypeError(f"expected seconds above 0, got {text}")
    return value


@dataclass(frozen=True)
class MemoryRequest:
    """
    A row of a memory-planning problem: a buffer of `size` bytes, which is live from time `lower` to
    `upper - 1`, and the byte `offset`.
    """

    id: str
    lower: int
    upper: int
    size: int
    offset: int = 0


def read_requests(path: str, *, placed: bool = False) -> list[MemoryRequest]:
    """
    Read the table of a memory-planning problem from the CSV file `path`, or from stdin for "-".
    With `placed`, it must have the column `offset`.
    """
    columns = (*REQUEST_COLUMNS, "offset") if placed else REQUEST_COLUMNS
    data = sys.stdin.buffer.read() if path == "-" else read_bytes(path)
    path = "<stdin>" if path == "-" else path
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(
            f"not a text file: expected a table with the columns {','.join(columns)}, such as "
            "a,0,4,1024 (docs/memory.md)",
            path,
        ) from None
    rows = csv.reader(io.StringIO(text, newline=""))
    try:
        table = [(rows.line_num, row) for row in rows]
    except csv.Error as error:
        raise InputError(f"not a table: {error}", f"{path}:{rows.line_num}") from None
    header = [name.strip() for name in table[0][1]] if table else []
    if sorted(header) != sorted(columns):
        raise InputError(f"expected columns {','.join(columns)}, got '{','.join(header)}'", path)
    found: dict[str, MemoryRequest] = {}
    for line, row in table[1:]:
        where = f"{path}:{line}"
        if not row:
            continue
        if len(row) != len(header):
            raise InputError(f"expected {len(header)} fields, got {len(row)}", where)
        cells = dict(zip(header, row, strict=True))
        name = cells["id"].strip()
        request = MemoryRequest(name, *(_integer(cells, field, where) for field in columns[1:]))
        if request.lower >= request.upper:
            raise InputError(f"id {name}: lower {request.lower} is not below upper", where)
        if request.size < 0:
            raise InputError(f"id {name}: size {request.size} is below 0", where)
        if name in found:
            raise InputError(f"id {name} occurs twice", where)
        found[name] = request
    return list(found.values())


def _integer(cells: dict[str, str], field: str, where: str) -> int:
    try:
        value = int(cells[field])
    except ValueError:
        raise InputError(f"{field} is no integer: '{cells[field][:40]}'", where) from None
    if not -MAX_INTEGER < value < MAX_INTEGER:
        raise InputError(f"{field} {value} exceeds 2^62 in magnitude", where)
    return value


def _plan(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)

    from ceras_ir.command.output_files import open_output
    from ceras_ir.support.native import has_compiler
    from ceras_ir.transforms.memory.offsets import (
        MAX_SEARCHED,
        SearchOutcome,
        Span,
        max_live_bytes,
        misplaced,
        place_quickly,
    )

    path: str = arguments.input
    capacity: int = arguments.capacity
    requests = read_requests(path, placed=arguments.check)
    spans = [Span(r.size, r.lower, r.upper) for r in requests]
    bound = max_live_bytes(spans)
    if arguments.check:
        offsets = [request.offset for request in requests]
        if wrong := misplaced([r.id for r in requests], spans, offsets, capacity):
            raise InputError(f"{wrong[0]} ({len(wrong)} such findings)", path)
        print(summary(spans, offsets, bound, capacity))
        return 0
    answer = place_quickly(spans, capacity, seconds=arguments.time_limit)
    if answer.outcome is SearchOutcome.IMPOSSIBLE:
        reason = (
            f"{bound:,} bytes are live at a time" if bound > capacity else "the search is complete"
        )
        raise InputError(f"impossible in {capacity:,} bytes: {reason}", path)
    if answer.outcome is SearchOutcome.STOPPED:
        if not has_compiler():
            raise UnsolvedError("greedy placement fails, and the search needs a C++ compiler", path)
        if len(spans) > MAX_SEARCHED:
            raise UnsolvedError(
                f"greedy placement fails, and the search takes at most {MAX_SEARCHED:,} "
                f"requests, got {len(spans):,}",
                path,
            )
        raise UnsolvedError(
            f"not solved in {arguments.time_limit:g} s at {capacity:,} bytes, with "
            f"{bound:,} bytes live at a time; increase --time-limit or --capacity",
            path,
        )
    with open_output(arguments.output) as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow((*REQUEST_COLUMNS, "offset"))
        for request, offset in zip(requests, answer.offsets, strict=True):
            writer.writerow((request.id, request.lower, request.upper, request.size, offset))
    summed = summary(spans, answer.offsets, bound, capacity)
    print(summed, file=sys.stderr if arguments.output == "-" else sys.stdout)
    return 0


class UnsolvedError(InputError):
    """The search reached the time limit without a plan or a proof."""

    exit_status = EXIT_UNSOLVED


def summary(spans: Sequence["Span"], offsets: Sequence[int], bound: int, capacity: int) -> str:
    """
    Return a line with the peak of a memory plan, `bound` (the lower bound of any plan), and the gap
    between them, in bytes. `spans` and `offsets` are the buffers and their byte offsets.
    """
    from ceras_ir.transforms.memory.offsets import gap

    peak = max((o + s.size for o, s in zip(offsets, spans, strict=True)), default=0)
    return (
        f"{len(spans)} requests, peak {peak:,} of {capacity:,} bytes, "
        f"lower bound {bound:,}, gap {gap(peak, bound):.2%}"
    )
