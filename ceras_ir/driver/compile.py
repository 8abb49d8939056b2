"""`ceras-compile`: a model to a folder that its target can run."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.driver.diagnostics import run_tool
from ceras_ir.driver.options import (
    EXIT_STATUS,
    add_build_options,
    add_io,
    add_target,
    build_options,
)


def main(argv: Sequence[str] | None = None) -> int:
    return run_tool("ceras-compile", _compile, argv)


def make_parser() -> argparse.ArgumentParser:
    """The command line of `ceras-compile`."""
    parser = argparse.ArgumentParser(
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
        "--save-temps", action="store_true", help="keep the IR of every level in DIR/temps"
    )
    return parser


def _compile(argv: Sequence[str]) -> int:
    arguments = make_parser().parse_args(argv)
    options = build_options(arguments, arguments.target)
    options.check()

    from ceras_ir.driver.build import build
    from ceras_ir.driver.named_file import naming
    from ceras_ir.driver.output_folder import open_folder, write_artefacts
    from ceras_ir.driver.report import print_table
    from ceras_ir.driver.stages import read_network

    with naming(arguments.model):
        module = read_network(arguments.model, batch=arguments.batch)
        with open_folder(arguments.output) as folder:
            saved = _Temporaries(folder / "temps") if arguments.save_temps else None
            if saved is not None:
                saved.save("graph", module)
            compiled = build(module, options, saved.save if saved else None)
            write_artefacts(folder, compiled.files())
    print_table(compiled.layers, compiled.report, options.target)
    return 0


class _Temporaries:
    """Numbered files with the IR of each level."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.count = 0

    def save(self, level: str, module: ModuleOp) -> None:
        from ceras_ir.driver.printing import print_module

        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"{self.count}-{level.replace(' ', '-')}.mlir"
        with open(path, "w", encoding="utf-8") as stream:
            print_module(module, stream)
        self.count += 1
