"""Target arduino: a folder that is a sketch and a library at once, sized against its board."""

from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from ceras_ir.backends.arduino.sketch import (
    can_scan,
    library_properties,
    main_sketch,
    predict_header,
    renamed,
    scan_sketch,
    sketch_name,
)
from ceras_ir.backends.c import emitter
from ceras_ir.backends.c.board import load_board
from ceras_ir.backends.c.cores import CORES
from ceras_ir.backends.c.fit import check_fit
from ceras_ir.backends.c.fitted_model import printed_model
from ceras_ir.backends.c.model import Model
from ceras_ir.backends.c.prefix import MODEL, Prefix
from ceras_ir.backends.c.sizes import Footprint
from ceras_ir.network.artefacts import Artefact
from ceras_ir.support.remarks import remark
from ceras_ir.support.suggestions import did_you_mean

HOST_FILES = frozenset({"main.c", "bench.c", "Makefile", "CMakeLists.txt", "toolchain.cmake"})
"""What the C backend writes for hosts."""


def emit(
    module: ModuleOp, board_name: str, title: str, prefix: Prefix = MODEL
) -> tuple[list[Artefact], dict[str, object], Footprint, Model]:
    """
    Files, the target's part of the manifest, the sizes, and the printed model; refuses what does
    not fit.
    """
    board = load_board(board_name)
    if board.core not in CORES:
        hint, known = did_you_mean(board.core, CORES), ", ".join(CORES)
        remark(
            f"{board_name}: note: core '{board.core}' is not known{hint} (cores: {known}); "
            "sizes and times are estimated as for a Cortex-M without DSP instructions"
        )
    model, options, footprint = printed_model(module, board, title, prefix=prefix)
    check_fit(model, footprint)
    name = sketch_name(title) if prefix == MODEL else prefix.name

    def text(path: str, description: str, content: str) -> Artefact:
        return Artefact.of_text(
            f"{name}/{renamed(path, prefix)}", description, renamed(content, prefix)
        )

    files = [
        text(f"{name}.ino", "the sketch: open it in the Arduino IDE", main_sketch(model, board)),
        text("predict.h", "predict() in C++", predict_header(model)),
        text(
            "library.properties",
            "makes the folder a library, where it is copied to the IDE's `libraries`",
            library_properties(name, model, board),
        ),
    ]
    if can_scan(model):
        files.append(text("examples/scan/scan.ino", "a colour scanner", scan_sketch(model)))
    files += [
        replace(a, path=f"{name}/{a.path}")
        for a in emitter.emit(module, options)
        if a.path not in HOST_FILES
    ]
    extra: dict[str, object] = {"sketch": name, "board": board_name, "fqbn": board.fqbn}
    return files, extra | prefix.entry(), footprint, model
