"""Implement `ceras-boards`: list the boards of all targets, or print the fields of a board."""

import json
from collections.abc import Iterator, Mapping, Sequence

from xdsl.utils.hints import isa

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser, early_value
from ceras_ir.driver.lists import definitions
from ceras_ir.driver.target_options import add_target, native_target
from ceras_ir.support.diagnostics import (
    InputError,
    UsageError,
    aligned,
    shortened,
)
from ceras_ir.support.files import parse_toml
from ceras_ir.support.user_files import read_text
from ceras_ir.targets.board_files import (
    TOML,
    BoardSummary,
    TomlTable,
    board_hint,
    fields_of,
    is_required,
    rule_of,
)
from ceras_ir.targets.protocol import Target
from ceras_ir.targets.registry import all_targets, board_owners, find_target

MODEL = "--model"

MAX_PART = 24
"""The maximum width of a core or part, in characters."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-boards", _boards, argv)


def make_parser() -> ToolParser:
    parser = ToolParser(
        "ceras-boards",
        description="List the boards of all targets, or print the fields of a board and the path "
        "of the file.",
        epilog="Exit status: 0 success, 1 a wrong board file or no board that fits, 2 wrong usage "
        "or an unknown name.",
        examples=("uno_r4_wifi", "my_board.toml", "pico my_board.toml --model model.onnx"),
    )
    parser.add_argument(
        "boards",
        nargs="*",
        metavar="NAME|FILE",
        help="print all fields of this board; with --model, compile for these boards",
    )
    parser.add_argument(
        MODEL,
        metavar="MODEL.onnx",
        help="compile this model for each board with limited memory, without files, and print "
        "memory, predicted time and whether it fits, with status 1 if it fits no board; has the "
        "options of ceras-compile, such as --calibrate and --target (default: "
        f"{native_target().name})",
    )
    add_target(parser, all_targets(), "only boards of this target")
    return parser


def _boards(argv: Sequence[str]) -> int:
    if early_value(argv, MODEL) is not None:
        from ceras_ir.driver.lists.fitting import compare_boards

        return compare_boards(argv)
    arguments = make_parser().read(argv)
    targets = all_targets() if arguments.target is None else [find_target(arguments.target)]
    boards: list[str] = arguments.boards
    if len(boards) > 1:
        raise UsageError("name a single board, or compare them for a model: --model MODEL.onnx")
    lines = _described(targets, boards[0]) if boards else _listed(targets)
    print("\n".join(lines))
    return 0


def board_groups(
    targets: Sequence[type[Target]],
) -> dict[str, list[tuple[str, BoardSummary]]]:
    """
    Return the boards of `targets` with their summaries. The key is the name of the target, or the
    names of all targets that share the board files ("a and b").
    """
    owners: dict[str, list[type[Target]]] = {}
    for target in targets:
        for file in target.boards().values():
            owners.setdefault(str(file), []).append(target)
    groups: dict[str, list[tuple[str, BoardSummary]]] = {}
    for target in targets:
        for name, file in target.boards().items():
            if target is (sharing := owners[str(file)])[0]:
                group = groups.setdefault(" and ".join(each.name for each in sharing), [])
                group.append((name, target.board_summary(name)))
    return groups


def _listed(targets: Sequence[type[Target]]) -> Iterator[str]:
    if not (groups := board_groups(targets)):
        yield f"target {targets[0].name} has no boards"
    for i, (names, boards) in enumerate(groups.items()):
        rows = [
            [name, shortened(found.part, MAX_PART), found.memory, found.title]
            for name, found in boards
        ]
        rows.insert(0, [names, "core or part", "memory", "title"])
        yield from [""] * (i > 0)
        yield from aligned(rows, right=())
    yield ""
    yield "Memory of microcontrollers: flash + SRAM. 'ceras boards NAME' prints a board."


def _described(targets: Sequence[type[Target]], board: str) -> Iterator[str]:
    owners = [target for target in targets if board in target.boards()]
    files = {str(target.boards()[board]): target for target in owners}
    if not owners:
        if not board.endswith(tuple(s for target in targets for s in target.board_suffixes)):
            raise _unknown(targets, board)
        yield from _of_file(targets, board)
    for i, (file, target) in enumerate(files.items()):
        names = [each.name for each in owners if str(each.boards()[board]) == file]
        yield from [""] * (i > 0)
        yield from _fields(target, names, board, file)


def _unknown(targets: Sequence[type[Target]], board: str) -> UsageError:
    known = list(dict.fromkeys(name for target in targets for name in target.boards()))
    of = f"target {targets[0].name} has" if len(targets) == 1 else "there is"
    hint = board_owners(board) or board_hint(board, known)
    listed = f" (boards: {', '.join(known)}; or a {TOML} file)" if known and not hint else ""
    return UsageError(f"{of} no board '{board}'{hint}{listed}")


def _of_file(targets: Sequence[type[Target]], file: str) -> Iterator[str]:
    accepted, errors = list[type[Target]](), dict[type[Target], InputError]()
    for target in targets:
        if file.endswith(target.board_suffixes):
            try:
                target.check_board(file)
                accepted.append(target)
            except InputError as error:
                errors[target] = error
    if not accepted:
        # The target that knows the most fields of the file has the best message.
        raise errors[max(errors, key=lambda target: _shared_fields(target, file))]
    yield from _fields(accepted[0], [each.name for each in accepted], file, file)


def _shared_fields(target: type[Target], file: str) -> int:
    try:
        content = _content(read_text(file), file)
    except (InputError, OSError, UnicodeDecodeError):
        return 0
    known = {each.name for kind in target.board_types() for each in fields_of(kind)}
    return len(known & content.keys())


def _content(text: str, file: str) -> Mapping[str, object]:
    if file.endswith(TOML):
        return parse_toml(text, file)
    try:
        content: object = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", file) from None
    return content if isa(content, TomlTable) else {}


def _fields(target: type[Target], names: Sequence[str], board: str, file: str) -> Iterator[str]:
    content = _content(read_text(file), file)
    plural = "s" * (len(names) > 1)
    yield f"{board}: a board of target{plural} {' and '.join(names)}"
    yield f"file: {file}"
    yield ""
    values = dict(_flat(content, ""))
    kinds = target.board_types()
    if kinds:
        # Declarations of a target differ in the fields, such as computers and microcontrollers.
        kind = max(kinds, key=lambda kind: len({e.name for e in fields_of(kind)} & content.keys()))
        for each in fields_of(kind):
            value = content.get(each.name)
            if rule_of(each).accepts_text and isinstance(value, int):
                values[each.name] = f"{value:#x}"
            is_shown = not is_required(each) and each.default not in (None, ())
            if is_shown and each.name not in content:
                values[each.name] = f"{json.dumps(each.default)} (default)"
    yield from definitions(values.items())


def _flat(table: Mapping[str, object], path: str) -> Iterator[tuple[str, str]]:
    """
    Yield the name and the value, as text, of each field in `table`. A field of a nested table has
    the path as name: `memory.sram`.
    """
    for key, value in table.items():
        name = f"{path}{key}"
        if isa(value, TomlTable):
            yield from _flat(value, f"{name}.")
        elif isa(value, list[TomlTable]) and value:
            for i, inner in enumerate(value):
                yield from _flat(inner, f"{name}[{i}].")
        else:
            yield name, json.dumps(value, ensure_ascii=False, default=str)
