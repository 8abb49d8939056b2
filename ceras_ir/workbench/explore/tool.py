"""Run `ceras-explore`: compile and judge the points of a study, or compile the best point."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ceras_ir.command.exit_status import EXIT_STATUS, run_tool
from ceras_ir.command.output_files import FolderOptions, write_file
from ceras_ir.command.tool_parser import ToolParser, add_options, add_output
from ceras_ir.driver.worker_options import (
    add_cache,
    add_limits,
    add_workers,
    cache_folder_of,
    workers_of,
)
from ceras_ir.support.diagnostics import InputError, UsageError, cannot_write, missing_file_remedy

if TYPE_CHECKING:
    from ceras_ir.workbench.explore.storage import Record
    from ceras_ir.workbench.explore.study_file import Study

BEST_COMMAND = "best"
"""The first argument for the compilation of the best point."""

TABLE, STUDY_PAGE = "points.csv", "index.html"


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-explore", _explore, argv)


def make_parser() -> ToolParser:
    """Return the parser of `ceras-explore STUDY.toml`."""
    parser = ToolParser(
        "ceras-explore",
        description="Compile and judge a network for all points of a study file, and print the "
        "Pareto front. Completed points are stored: after an interrupt, the same command "
        "continues. 'ceras-explore best STUDY.toml --where EXPR -o DIR' compiles the best point.",
        epilog=EXIT_STATUS,
        examples=("study.toml", "study.toml --jobs 4 --folder results"),
    )
    parser.add_argument("study", metavar="STUDY.toml", help="models, choices and objectives")
    _add_places(parser)
    parser.add_argument(
        "--retry-failed", action="store_true", help="run trials again that have failed"
    )
    add_workers(parser)
    add_cache(parser)
    add_limits(parser)
    return parser


def make_best_parser() -> ToolParser:
    """Return the parser of `ceras-explore best`, which compiles the best point of a study."""
    parser = ToolParser(
        "ceras-explore best",
        description="Compile the best point of an explored study: the first on the Pareto front "
        "of the points that --where admits.",
        epilog=EXIT_STATUS,
        examples=(
            "study.toml -o model_c",
            'study.toml --where "flash < 200000" --by flash -o model_c',
        ),
    )
    parser.add_argument("study", metavar="STUDY.toml", help="models, choices and objectives")
    parser.add_argument(
        "--where",
        default="True",
        metavar="EXPR",
        help='a condition for points, such as "flash < 200000 and top_1 > 0.8"',
    )
    parser.add_argument(
        "--by", metavar="FIGURE", help="the objective that counts first (default: the study's)"
    )
    add_output(parser, "DIR", "output folder", required=True)
    add_options(parser, FolderOptions)
    _add_places(parser)
    return parser


def _add_places(parser: ToolParser) -> None:
    parser.add_argument(
        "--folder",
        metavar="DIR",
        help="the folder of reports, tables and study.db (default: STUDY.study next to the file)",
    )
    parser.add_argument(
        "--storage",
        metavar="URL",
        help="the Optuna storage, such as postgresql://host/db (default: study.db in the folder)",
    )


def _explore(argv: Sequence[str]) -> int:
    if argv and argv[0] == BEST_COMMAND:
        return _compile_best(make_best_parser().read(argv[1:]))
    return _run(make_parser().read(argv))


def _folder(arguments: argparse.Namespace) -> Path:
    study = Path(arguments.study)
    if not study.is_file():
        raise InputError(f"no such file{missing_file_remedy(arguments.study)}", arguments.study)
    folder = arguments.folder or study.with_suffix(".study")
    return Path(folder).resolve()


def _url(arguments: argparse.Namespace, folder: Path) -> str:
    return arguments.storage or f"sqlite:///{folder / 'study.db'}"


def _run(arguments: argparse.Namespace) -> int:
    from ceras_ir.workbench.evaluation import CacheAt
    from ceras_ir.workbench.explore.exploration import Exploration
    from ceras_ir.workbench.explore.known_figures import check_figures
    from ceras_ir.workbench.explore.results import csv_table, pareto_table, reasons
    from ceras_ir.workbench.explore.storage import Trials
    from ceras_ir.workbench.explore.study_file import load_study
    from ceras_ir.workbench.explore.trial import DONE, FAILED, Work, study_digests

    folder = _folder(arguments)
    study = load_study(arguments.study, folder / "boards")
    check_figures(study, arguments.study)
    _make(folder)
    trials = Trials(study, _url(arguments, folder))
    cache = CacheAt(str(cache_folder_of(arguments)), arguments.cache_size)
    digests = study_digests(study)
    work = Work(study, cache, files={path: digest for digest, path in digests.items()})
    exploration = Exploration(study, trials, folder, work, arguments.retry_failed)
    before = len(exploration.records())
    if before:
        print(f"{before} points are there already", file=sys.stderr)
    try:
        with workers_of(arguments, digests, default=None) as workers:
            exploration.run(workers)
    finally:
        # After an interrupt, the tables of the completed points are written.
        records = exploration.records()
        write_file(str(folder / TABLE), csv_table(records).encode())
        _write_page(study, records, folder)
    print("\n".join([*pareto_table(study, records), *reasons(records)]))
    print(f"{len(records)} points: {folder / STUDY_PAGE}, {folder / TABLE}")
    states = {record.state for record in records}
    if DONE in states:
        return 0
    raise InputError(
        "all points that were not ruled out have failed, as printed above; --retry-failed runs "
        "them again"
        if FAILED in states
        else "the constraints rule out all points, as printed above; relax them, or add choices",
        arguments.study,
    )


def _write_page(study: "Study", records: "Sequence[Record]", folder: Path) -> None:
    from ceras_ir.workbench.explore.page import study_page

    try:
        page = study_page(study, records)
    except UsageError as error:
        print(f"note: no page of the study yet: {error}", file=sys.stderr)
        return
    write_file(str(folder / STUDY_PAGE), page.encode())


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(error, str(folder)) from None


def _compile_best(arguments: argparse.Namespace) -> int:
    from ceras_ir.driver.compile import main as compile_main
    from ceras_ir.workbench.evaluation import CacheAt
    from ceras_ir.workbench.explore.exploration import Exploration
    from ceras_ir.workbench.explore.page import point_folder
    from ceras_ir.workbench.explore.results import best_record
    from ceras_ir.workbench.explore.storage import Trials
    from ceras_ir.workbench.explore.study_file import arguments_of, load_study
    from ceras_ir.workbench.explore.trial import Work

    folder = _folder(arguments)
    study = load_study(arguments.study, folder / "boards")
    if arguments.storage is None and not (folder / "study.db").is_file():
        raise InputError("was not explored yet: run ceras-explore on it first", arguments.study)
    trials = Trials(study, _url(arguments, folder))
    exploration = Exploration(study, trials, folder, Work(study, CacheAt("", 1)))
    record = best_record(study, exploration.records(), arguments.where, arguments.by)
    print(f"report of the study: {point_folder(folder, record.identity)}", file=sys.stderr)
    force = ["--force"] if arguments.force else []
    argv = [*arguments_of(study, record.point), "-o", arguments.output, *force]
    return compile_main(argv)
