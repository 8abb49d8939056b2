"""Test predicted flash and SRAM against the ELF of gcc -Os for the core, and the refusals."""

import re
from dataclasses import replace
from importlib.resources import files as resources
from pathlib import Path

import firmware
import pytest
from backends.arduino.networks import colour_mlp
from c_harness import needs_arm, needs_espressif, needs_rv32
from onnx import TensorProto
from tree_models import ml_model, ml_node, node_attributes, random_trees
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.hints import isa

from ceras_ir.backends.arduino.target import ArduinoTarget
from ceras_ir.backends.c import emulator
from ceras_ir.backends.c.costs import Footprint
from ceras_ir.backends.c.emitter import files_of
from ceras_ir.backends.c.fit import remedies
from ceras_ir.backends.c.machines import board_names, load_board
from ceras_ir.backends.c.model import PrintedModel, tensor_c_type
from ceras_ir.backends.c.names import EncodingChoice
from ceras_ir.backends.c.optimize import choose
from ceras_ir.backends.c.target import CTarget
from ceras_ir.command.output_files import write_artefacts
from ceras_ir.frontends.onnx import import_model
from ceras_ir.pipeline.build import Build, build
from ceras_ir.pipeline.context import load_context
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.pipeline.stages import BuildOptions, Quantize, front_stages, run_stages, target_stages
from ceras_ir.support.diagnostics import InputError, UnsupportedError

pytestmark = pytest.mark.slow

BOARD = load_board("uno_r4_wifi")
CORES = [pytest.param("uno_r4_wifi", marks=needs_arm), pytest.param("esp32_c3", marks=needs_rv32)]
TOOLS = {"esp32_c3": needs_rv32, "esp32_s3": needs_espressif}
BOARDS = [pytest.param(name, marks=TOOLS.get(name, needs_arm)) for name in board_names()]
SHARED = Path(__file__).parents[4] / "shared/models"
LINKER_SLACK = 64
CALLER = '#include "model.h"\nfloat x[3], y[3];\nint main(void) { return model_run(x, y); }\n'


def elf_sizes(
    module: ModuleOp, options: BuildOptions, work: Path, core: str
) -> tuple[Footprint, firmware.Sizes]:
    """Return the prediction, and the sizes of a program that only calls the model."""
    roomy = replace(load_board(core), flash_bytes=4 << 20, sram_bytes=4 << 20)
    ctx = load_context()
    run_stages(ctx, module, front_stages(options))
    run_stages(ctx, module, target_stages(options))
    choice = choose(module, roomy, "model", goal="speed")
    model, footprint = choice.model, choice.footprint
    files = [a for a in files_of(model) if a.path.startswith("model")]
    sources = firmware.write_files(files, work)
    caller = work / "caller.c"
    caller.write_text(calling(model))
    elf = emulator.build_elf([caller, *sources], roomy, work, include=[work], flags=("-Os",))
    return footprint, firmware.sizes(elf, roomy.known_core.tools.prefix)


def calling(model: PrintedModel) -> str:
    """Return a program that only calls the model."""
    pairs = list(zip(model.tensors, model.names, strict=True))
    lines = [f"{tensor_c_type(t)} {n}_data[{t.size}];" for t, n in pairs]
    call = ", ".join(f"{n}_data" for _, n in pairs)
    return "\n".join(
        ['#include "model.h"', *lines, f"int main(void) {{ return model_run({call}); }}", ""]
    )


def agree(footprint: Footprint, real: firmware.Sizes) -> None:
    margin = footprint.board.known_core.code_margin * footprint.code
    assert abs(real.flash - footprint.flash) <= margin, (real, footprint)
    assert abs(real.sram - footprint.sram) <= LINKER_SLACK, (real, footprint)


@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize("encoding", ["dense", "csr", "csr-int8", "code"])
def test_sizes_of_encoded_networks(tmp_path: Path, encoding: EncodingChoice, core: str):
    options = BuildOptions(ArduinoTarget(encoding=encoding))
    agree(*elf_sizes(colour_mlp(48, zeros=0.9), options, tmp_path, core))


@pytest.mark.sample(10)
@pytest.mark.parametrize("core", CORES)
@pytest.mark.parametrize(
    "name", ["mnist_conv", "mnist_mcu", "mnist_mlp", "resnet8_float", "vww_float"]
)
@pytest.mark.parametrize("quantize", ["none", "int8"])
def test_sizes_of_real_networks(tmp_path: Path, name: str, quantize: Quantize, core: str):
    if not (path := SHARED / f"{name}.onnx").exists():
        pytest.skip("needs ../shared")
    options = BuildOptions(ArduinoTarget(), quantize=quantize)
    agree(*elf_sizes(read_network(str(path)), options, tmp_path, core))


@pytest.mark.parametrize("name", BOARDS)
def test_every_board_compiles_and_links(tmp_path: Path, name: str):
    """
    The network compiles with the flags of the core, fits the memories, and is not larger than
    predicted.
    """
    board = load_board(name)
    built = build(colour_mlp(40, zeros=0.9), BuildOptions(ArduinoTarget(board=name)))
    write_artefacts(tmp_path, built.files())
    caller = tmp_path / "caller.c"
    caller.write_text(CALLER)
    sketch = tmp_path / "model"
    sources = [caller, *sorted(sketch.glob("*.c"))]
    elf = emulator.build_elf(sources, board, tmp_path, include=[sketch], flags=("-Os",))
    agree(footprint_of(built), firmware.sizes(elf, board.known_core.tools.prefix))


@pytest.mark.parametrize("name", [*CORES, pytest.param("due", marks=needs_arm)])
def test_target_c_reports_the_same_sizes(tmp_path: Path, name: str):
    """`flash_bytes` and `sram_bytes` are the sizes of a linked program with inputs and outputs."""
    built = build(colour_mlp(40), BuildOptions(CTarget(board=name, prefix="model")))
    write_artefacts(tmp_path, built.files())
    caller = tmp_path / "caller.c"
    caller.write_text(CALLER)
    sources = [caller, *sorted(tmp_path.glob("model*.c"))]
    board = load_board(name)
    elf = emulator.build_elf(sources, board, tmp_path, include=[tmp_path], flags=("-Os",))
    totals, layers = built.report["totals"], built.report["layers"]
    assert isa(totals, dict[str, int | float]) and isa(layers, list[dict[str, object]])
    real = firmware.sizes(elf, board.known_core.tools.prefix)
    margin = board.known_core.code_margin * totals["code_bytes"]
    assert abs(real.flash - totals["flash_bytes"]) <= margin, (real, totals)
    assert abs(real.sram - totals["sram_bytes"]) <= LINKER_SLACK, (real, totals)
    assert totals["board_flash_bytes"] == board.free_flash
    assert all(isinstance(layer["flash_bytes"], int) for layer in layers)


def footprint_of(built: Build) -> Footprint:
    board = built.options.target.board_name
    assert board is not None
    return choose(built.module, load_board(board), "model").footprint


def operations(built: Build) -> list[str]:
    layers = built.report["layers"]
    assert isa(layers, list[dict[str, object]])
    return [f"{layer['op']} {layer.get('kernel', '')}".rstrip() for layer in layers]


def refusal(module: ModuleOp, options: BuildOptions) -> str:
    with pytest.raises(UnsupportedError) as caught:
        build(module, options)
    return str(caught.value)


def remedy_options(text: str) -> list[BuildOptions]:
    """Return the remedies of a message that are options."""
    found: list[BuildOptions] = []
    for remedy in re.split(r"\(\d\) ", text.partition("What would fit: ")[2])[1:]:
        pruning = re.search(r'--prune="(.*?)"', remedy)
        encoding = re.search(r"--encoding (csr-int8|csr)", remedy)
        board = re.search(r"--board (\w+)", remedy)
        if pruning or encoding or board:
            found.append(
                BuildOptions(
                    ArduinoTarget(
                        encoding="csr-int8" if encoding and encoding[1] != "csr" else "csr",
                        board=str(board[1]) if board else ArduinoTarget.board,
                    ),
                    prune=pruning[1] if pruning else None,
                )
            )
    return found


def test_every_option_that_a_refusal_names_makes_it_fit():
    text = refusal(colour_mlp(300), BuildOptions(ArduinoTarget(encoding="dense")))
    assert "unsupported" in text and "flash" in text and "of 262,144 bytes" in text
    options = remedy_options(text)
    assert len(options) >= 2, text
    for option in options:
        built = build(colour_mlp(300), option)
        assert footprint_of(built).fits, option


def test_the_width_that_a_refusal_names_is_the_largest_that_fits():
    options = BuildOptions(ArduinoTarget(encoding="csr-int8"))
    text = refusal(colour_mlp(1700, zeros=0.9), options)
    named = int(text.partition("hidden layers of at most ")[2].partition(",")[0])
    build(colour_mlp(named - 12, zeros=0.9), options)
    refusal(colour_mlp(named + 12, zeros=0.9), options)


def test_auto_compresses_only_as_far_as_the_board_asks_for():
    def scales(hidden: int, zeros: float) -> list[str]:
        built = build(colour_mlp(hidden, zeros=zeros), BuildOptions(ArduinoTarget()))
        return operations(built)

    assert scales(40, 0.0) == ["matmul"] * 3
    assert scales(40, 0.95)[1] == "matmul csr_index16 code"  # 80 weights remain
    assert scales(200, 0.95)[1] == "matmul csr_delta8"
    # 4 bytes per weight are too large, and there are no zeros to omit.
    assert scales(300, 0.0)[1] == "matmul int8"
    assert scales(1200, 0.95)[1] == "matmul csr_delta8 int8"


def test_the_board_is_a_file_too(tmp_path: Path):
    board = tmp_path / "tiny.toml"
    text = (resources("ceras_ir.backends.c") / "boards" / "uno_r4_wifi.toml").read_text()
    board.write_text(text.replace("flash_bytes = 262144", "flash_bytes = 4096", 1))
    with pytest.raises(UnsupportedError, match=r"of 4,096 bytes"):
        build(colour_mlp(40), BuildOptions(ArduinoTarget(board=str(board), encoding="dense")))
    for bad, message in (
        ("clock_mhz = 48", "no field 'clock_mhz'"),
        ("sram_bytes = 32768", "no field 'sram_bytes'"),
    ):
        board.write_text(text.replace(bad, "", 1))
        with pytest.raises(InputError, match=message):
            load_board(str(board))
    board.write_text(text.replace("= 48", "= -1"))
    with pytest.raises(InputError, match=r"clock_mhz must be an integer in \[1, 100000\], got -1"):
        load_board(str(board))
    board.write_text(text + "flash = 3\n")
    with pytest.raises(InputError, match="no field 'flash'"):
        load_board(str(board))
    with pytest.raises(InputError, match=r"has no board 'uno'.* .boards: due, esp32_c3, "):
        load_board("uno")


def test_a_core_that_is_not_known_is_refused(tmp_path: Path):
    """A misspelled core would disable the kernels of the DSP extension."""
    board = tmp_path / "mine.toml"
    text = (resources("ceras_ir.backends.c") / "boards" / "uno_r4_wifi.toml").read_text()
    board.write_text(text.replace('"cortex-m4"', '"cortex-m44"', 1))
    with pytest.raises(InputError, match="'cortex-m44' is not known; did you mean 'cortex-m4'"):
        build(colour_mlp(4), BuildOptions(ArduinoTarget(board=str(board))))


@needs_arm
@pytest.mark.slow
@pytest.mark.parametrize(
    ("encoding", "zeros", "hidden"),
    [("dense", 0.0, 240), ("csr", 0.95, 860), ("csr-int8", 0.95, 1200)],
)
def test_the_largest_networks_asked_for_link(
    tmp_path: Path, encoding: EncodingChoice, zeros: float, hidden: int
):
    built = build(colour_mlp(hidden, zeros=zeros), BuildOptions(ArduinoTarget(encoding=encoding)))
    write_artefacts(tmp_path, built.files())
    caller = tmp_path / "caller.c"
    caller.write_text(CALLER)
    sketch = tmp_path / "model"
    sources = [caller, *sorted(sketch.glob("*.c"))]
    emulator.build_elf(sources, BOARD, tmp_path, include=[sketch], flags=("-Os",))


def forest(trees: int) -> ModuleOp:
    """Return trees placed for a board; a smaller number of trees is a prefix of a larger number."""
    nodes = random_trees(1, trees=trees, depth=6, features=8, targets=1)
    attributes = node_attributes(nodes, "target")
    node = ml_node("TreeEnsembleRegressor", ["x"], ["y"], n_targets=1, **attributes)
    module = import_model(ml_model([node], [1, 8], {"y": TensorProto.FLOAT}))
    options = BuildOptions(ArduinoTarget(board="uno_r4_wifi"))
    run_stages(load_context(), module, [*front_stages(options), *target_stages(options)])
    return module


def test_forests_are_told_how_many_nodes_fit():
    """Forests have no channels; the named number of trees fits, within the differences of trees."""
    whole = forest(50)
    footprint = choose(whole, BOARD, "model").footprint
    less = BOARD.free_flash - footprint.flash + footprint.constants // 2
    board = replace(BOARD, flash_bytes=BOARD.flash_bytes - less)
    choice = choose(whole, board, "model")
    way = next(remedies(choice.model, choice.footprint))
    found = re.match(r"fewer or shallower trees, of about (\d+)% of the nodes", way)
    assert found is not None
    assert choose(forest(50 * int(found[1]) // 100 - 3), board, "model").footprint.fits
