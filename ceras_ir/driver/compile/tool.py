"""`ceras-compile`: a model to a folder that its target can run."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.command.exit_status import run_tool
from ceras_ir.command.tool_parser import ToolParser
from ceras_ir.driver.calibration_options import calibration_workers
from ceras_ir.driver.options import (
    EXIT_STATUS,
    add_build_options,
    add_io,
    bindings_of,
    build_options,
)
from ceras_ir.driver.target_options import (
    TargetClass,
    add_target_options,
    compiling_targets,
    described_targets,
    named_target,
    target_of,
)
from ceras_ir.pipeline.plugins import plugins
from ceras_ir.pipeline.stages import pruning
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.targets.protocol import MEMORY, PLACED, Stage

TEMPORARY = "what the network was at one level"
"""Of files in `temps`, for the manifest."""


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-compile", _compile, argv)


def make_parser(target: TargetClass | None = None) -> ToolParser:
    """The command line of `ceras-compile`, with the options of one target."""
    known = compiling_targets()
    parser = ToolParser(
        "ceras-compile",
        description="Compile an ONNX model (or IR text) into a folder of artefacts with "
        "manifest.json and report.json. With --target, --help lists its options too.",
        epilog=f"{described_targets(known)} {EXIT_STATUS}",
    )
    parser.add_argument("model", metavar="MODEL.onnx", help="an ONNX model, or IR text in .mlir")
    parser.add_argument(
        "-o", dest="output", metavar="DIR", required=True, help="write the folder here"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="write into a folder that has files and no manifest of ours; files in the way are "
        "replaced",
    )
    parser.add_argument(
        "--target",
        choices=[cls.name for cls in known],
        required=True,
        help="compile for this machine",
    )
    add_build_options(parser)
    add_io(parser)
    parser.add_argument(
        "--save-temps",
        action="store_true",
        help="keep the IR of every level, and other intermediate files of the target, in DIR/temps",
    )
    parser.add_argument(
        "--why",
        action="append",
        default=[],
        metavar="NODE",
        help="print the device of a node, and the reason; may be repeated",
    )
    parser.add_argument(
        "--html", action="store_true", help="draw the memory plan as a picture in DIR/memory.html"
    )
    add_target_options(parser, [] if target is None else [target])
    return parser


def _compile(argv: Sequence[str]) -> int:
    with plugins(argv):
        chosen = named_target(argv)
        arguments = make_parser(chosen).read(argv)
        assert chosen is not None, "the parser requires a target"
        with calibration_workers(arguments):
            return _build(arguments, chosen)


def _build(arguments: argparse.Namespace, chosen: TargetClass) -> int:
    options = build_options(arguments, target_of(chosen, arguments))
    options.check()
    pruning(options)
    if arguments.html and all(stage.level != MEMORY for stage in options.target.lower()):
        raise UsageError(f"--html draws a memory plan, and target {chosen.name} has none")

    from ceras_ir.command.named_file import naming
    from ceras_ir.command.output_folder import open_folder, write_artefacts
    from ceras_ir.pipeline.build import build
    from ceras_ir.pipeline.reading import read_network
    from ceras_ir.pipeline.report_table import table

    with naming(arguments.model):
        module = read_network(arguments.model, **bindings_of(arguments))
        with open_folder(arguments.output, force=arguments.force) as folder:
            saved = _Temporaries(folder / "temps") if arguments.save_temps else None
            if saved is not None:
                saved.save("graph", module)
            why = _Why(arguments.why)

            def after(stage: Stage, module: ModuleOp) -> None:
                if saved is not None:
                    saved.save(stage.title, module)
                if stage.level == PLACED:
                    why.ask(module)

            compiled = build(module, options, after)
            if saved is not None:
                write_artefacts(saved.folder, options.target.temporaries(compiled.module))
            others = {path.relative_to(folder).as_posix(): TEMPORARY for path in _files(folder)}
            if arguments.html:
                from ceras_ir.driver.compile.memory_map import memory_map

                title = f"{Path(arguments.model).name} for {chosen.name}"
                compiled.emission.artefacts.append(memory_map(compiled.module, title))
            write_artefacts(folder, compiled.files(others))
    print(table(compiled.report, chosen.name, compiled.emission))
    for line in why.answers:
        print(line)
    return 0


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


class _Why:
    """What the placed graph says about the nodes that the user asks for."""

    def __init__(self, nodes: Sequence[str]):
        self.nodes = nodes
        self.answers: list[str] = []

    def ask(self, module: ModuleOp) -> None:
        from ceras_ir.transforms.placement.explain import explanation

        self.answers = []
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
        from ceras_ir.pipeline.printing import print_module

        self.folder.mkdir(parents=True, exist_ok=True)
        words = "".join(char if char.isalnum() or char in "-_" else " " for char in level)
        path = self.folder / f"{self.count}-{'-'.join(words.split())}.mlir"
        with open(path, "w", encoding="utf-8") as stream:
            print_module(module, stream)
        self.count += 1
