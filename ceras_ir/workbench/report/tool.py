"""`ceras-report`: write a page about a compiled folder, or about the differences of two."""

from collections.abc import Sequence
from pathlib import Path

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.driver.options import EXIT_STATUS
from ceras_ir.support.diagnostics import UsageError

PAGE = "report.html"


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-report", _report, argv)


def make_parser() -> ToolParser:
    """Return the command line of `ceras-report`."""
    parser = ToolParser(
        "ceras-report",
        description="Write a page about a folder that ceras-compile wrote: graph, devices with "
        "reasons, layers, memory, predicted times, provenance. With two folders, the page has the "
        "differences. It is a single file without external resources.",
        epilog=EXIT_STATUS,
    )
    parser.add_argument("folder", metavar="DIR", help="a folder that ceras-compile wrote")
    parser.add_argument(
        "other", metavar="OTHER", nargs="?", help="a second folder, to compare with"
    )
    parser.add_argument(
        "-o",
        dest="output",
        metavar="OUT.html",
        default=PAGE,
        help="the page (default: %(default)s in the current folder)",
    )
    parser.add_argument(
        "--trace",
        metavar="OUT.json",
        help="also write the predicted inference as a trace for Perfetto",
    )
    return parser


def _report(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    if arguments.other is not None and arguments.trace is not None:
        raise UsageError("--trace requires a single folder")

    from ceras_ir.command.output_files import open_output
    from ceras_ir.workbench.report.content import read_folder

    content = read_folder(arguments.folder)
    if arguments.other is None:
        from ceras_ir.workbench.report.page import report_page

        page = report_page(content)
    else:
        from ceras_ir.workbench.report.difference import difference_page

        names = Path(arguments.folder).resolve().name, Path(arguments.other).resolve().name
        page = difference_page(content, read_folder(arguments.other), names)
    written = [(arguments.output, page)]
    if arguments.trace is not None:
        from ceras_ir.workbench.report.content import perfetto_trace

        written.append((arguments.trace, perfetto_trace(content)))
    for path, text in written:
        with open_output(path) as stream:
            stream.write(text)
    return 0
