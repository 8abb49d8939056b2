"""`ceras-compile`: a model to a folder that its target can run."""

from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.driver.options import (
    EXIT_STATUS,
    add_build_options,
    add_io,
    add_target,
    build_options,
)
from ceras_ir.support.diagnostics import UsageError


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-compile", _compile, argv)


def make_parser() -> ToolParser:
    """The command line of `ceras-compile`."""
    parser = ToolParser(
        "ceras-compile",
        description="Compile an ONNX model (or IR text) into a folder of artefacts with "
        "manifest.json and report.json.",
        epilog=EXIT_STATUS,
    )
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX model, or IR text in .mlir")
    parser.add_argument("-o", dest="output", metavar="DIR", required=True, help="output folder")
    add_target(parser, interpreter=False)
    add_build_options(parser)
    add_io(parser)
    parser.add_argument(
        "--save-temps",
        action="store_true",
        help="keep the IR of every level in DIR/temps; for vta also streams as text and "
        "timelines as HTML and Chrome trace",
    )
    parser.add_argument(
        "--why",
        action="append",
        default=[],
        metavar="NODE",
        help="say on which device the node runs, and why; may be repeated",
    )
    parser.add_argument(
        "--emit-hls",
        action="store_true",
        help="target nnet: also write the FPGA side as a C++ project with test bench and golden "
        "data in DIR/hls",
    )
    parser.add_argument(
        "--html", action="store_true", help="draw the memory plan as a picture in DIR/memory.html"
    )
    return parser


def _compile(argv: Sequence[str]) -> int:
    arguments = make_parser().read(argv)
    options = build_options(arguments, arguments.target)
    options.check()
    if arguments.html and options.target == "onnx":
        raise UsageError("--html draws a memory plan, and target onnx has none")

    from ceras_ir.command.named_file import naming
    from ceras_ir.command.output_folder import open_folder, write_artefacts
    from ceras_ir.driver.compile.report import print_table
    from ceras_ir.driver.pipeline.build import build
    from ceras_ir.driver.pipeline.stages import read_network

    with naming(arguments.model):
        module = read_network(arguments.model, batch=arguments.batch, shapes=dict(arguments.shape))
        with open_folder(arguments.output) as folder:
            saved = _Temporaries(folder / "temps") if arguments.save_temps else None
            if saved is not None:
                saved.save("graph", module)
            why = _Why(arguments.why)

            def after(level: str, module: ModuleOp) -> None:
                if saved is not None:
                    saved.save(level, module)
                if level == "placed graph":
                    why.ask(module)

            compiled = build(module, options, after)
            files = compiled.files()
            if saved is not None and options.target == "vta":
                saved.save_streams(compiled.module, options.board)
            if arguments.html:
                from ceras_ir.driver.compile.memory_map import memory_map

                include_io = options.target == "nnet"
                title = f"{Path(arguments.model).name} for {options.target}"
                files.append(memory_map(compiled.module, title, include_io=include_io))
            write_artefacts(folder, files)
    print_table(compiled.layers, compiled.report, options.target, compiled.footprint)
    for line in why.answers:
        print(line)
    return 0


class _Why:
    """What the placed graph says about the nodes that the user asks for."""

    def __init__(self, nodes: Sequence[str]):
        self.nodes = nodes
        self.answers: list[str] = []

    def ask(self, module: ModuleOp) -> None:
        from ceras_ir.transforms.placement.explain import explanation

        for node in self.nodes:
            lines = explanation(module, node)
            if not lines:
                raise UsageError(f"--why: no node '{node}' in the compiled network")
            self.answers += lines


class _Temporaries:
    """Numbered files with the IR of each level."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.count = 0

    def save(self, level: str, module: ModuleOp) -> None:
        from ceras_ir.driver.pipeline.printing import print_module

        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.count}-{level.replace(' ', '-')}.mlir"
        with open(path, "w", encoding="utf-8") as stream:
            print_module(module, stream)
        self.count += 1

    def save_streams(self, module: ModuleOp, board_name: str | None) -> None:
        """The streams as text, and pictures of when they run."""
        from ceras_ir.backends.vta.board import load_board
        from ceras_ir.backends.vta.disassembler import disassemble_program
        from ceras_ir.backends.vta.emit import DEFAULT_BOARD_NAME
        from ceras_ir.backends.vta.launches import lower_launches
        from ceras_ir.backends.vta.performance import measure
        from ceras_ir.backends.vta.timeline import chrome_trace, html

        board = load_board(board_name or DEFAULT_BOARD_NAME)
        launches = lower_launches(module, board)
        traced = [
            (cost.name, launch.program.instructions, cost.run)
            for launch, cost in zip(launches, measure(launches, board), strict=True)
        ]
        (self.folder / "timeline.html").write_text(html(traced), encoding="utf-8")
        (self.folder / "timeline.json").write_text(chrome_trace(traced), encoding="utf-8")
        for index, launch in enumerate(launches):
            text = disassemble_program(launch.program)
            (self.folder / f"launch_{index}.vtas").write_text(text, encoding="utf-8")
