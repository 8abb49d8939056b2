"""
From a model to placed memory: which passes each target runs, grouped by the level they end at.

Every tool that compiles goes through here, so that `ceras-verify` checks exactly what
`ceras-compile` ships.
"""

from collections.abc import Callable
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.diagnostics import InputError, UsageError
from ceras_ir.driver.instrumentation import PassRunner

TARGETS = ("c", "arduino", "nnet", "vta")
"""What `--target` takes."""

INTEGER_TARGETS = frozenset({"nnet", "vta"})
"""Targets whose accelerator has no floating point: they quantize without being asked."""


@dataclass(frozen=True)
class BuildOptions:
    """What the user asked for, as far as passes depend on it."""

    target: str
    quantize: str = "auto"
    calibrate: str | None = None
    board: str | None = None
    io: str = "model"

    @property
    def is_quantized(self) -> bool:
        """Whether the network becomes int8: asked for, calibrated, or the target's only way."""
        if self.quantize == "auto":
            return self.calibrate is not None or self.target in INTEGER_TARGETS
        return self.quantize == "int8"

    def check(self) -> None:
        """Refuse options that contradict each other, before any work."""
        if not self.is_quantized and self.target in INTEGER_TARGETS:
            raise UsageError(
                f"target {self.target} computes on int8: use --quantize int8, or --target c"
            )
        if self.io == "int8" and not self.is_quantized:
            raise UsageError("--io int8 needs a quantized network: add --quantize int8")
        if self.quantize == "none" and self.calibrate is not None:
            raise UsageError("--calibrate is for quantization, and --quantize none forbids it")


@dataclass(frozen=True)
class Stage:
    """The passes that lead to one level."""

    level: str
    passes: tuple[ModulePass, ...]


def read_network(path: str, *, batch: int = 1) -> ModuleOp:
    """The float graph of an ONNX file, or the module of an IR text, verified."""
    from ceras_ir.driver.context import load_context
    from ceras_ir.driver.parsing import is_model, load_module
    from ceras_ir.driver.verification import verify_module

    if not is_model(path) and not path.endswith(".mlir"):
        raise InputError("expected a model ending in .onnx or IR text ending in .mlir", path)
    module = load_module(load_context(), path, batch=batch)
    verify_module(module)
    return module


def front_stages(options: BuildOptions) -> list[Stage]:
    """What does not depend on the target: fusion and quantization."""
    from ceras_ir.transforms.fuse import FusePass

    stages = [Stage("fused graph", (FusePass(),))]
    if options.is_quantized:
        from ceras_ir.transforms.quantize import QuantizePass

        stages.append(Stage("quantized graph", (QuantizePass(calibration=options.calibrate),)))
        if options.io == "int8":
            from ceras_ir.transforms.strip_border_quantization import StripBorderQuantizationPass

            stages.append(Stage("int8 border", (StripBorderQuantizationPass(),)))
    return stages


def target_stages(options: BuildOptions) -> list[Stage]:
    """What the target adds to the graph: devices, tiles and memory."""
    from ceras_ir.transforms.allocate_blocks import AllocateBlocksPass
    from ceras_ir.transforms.place import PlacePass

    match options.target:
        case "nnet":
            return [
                Stage("placed graph", (PlacePass(target="nnet"),)),
                Stage("memory", (AllocateBlocksPass(strategy="colouring", io=True, alignment=64),)),
            ]
        case "vta":
            from ceras_ir.backends.vta.emit import DEFAULT_BOARD_NAME
            from ceras_ir.transforms.convert_graph_to_tile import ConvertGraphToTilePass
            from ceras_ir.transforms.fold_packing import FoldPackingPass
            from ceras_ir.transforms.tile import TilePass

            board = options.board or DEFAULT_BOARD_NAME
            return [
                Stage("placed graph", (PlacePass(target="vta"),)),
                Stage("packed graph", (ConvertGraphToTilePass(), FoldPackingPass())),
                Stage("tile", (TilePass(board=board),)),
                Stage("memory", (AllocateBlocksPass(alignment=256),)),
            ]
        case _:
            return [
                Stage("placed graph", (PlacePass(target="c"),)),
                Stage("memory", (AllocateBlocksPass(),)),
            ]


def run_stages(
    ctx: Context,
    module: ModuleOp,
    stages: list[Stage],
    after: Callable[[str, ModuleOp], None] | None = None,
) -> None:
    """Run `stages` in place; `after` sees the module at the end of each level."""
    runner = PassRunner()
    for stage in stages:
        runner.run(ctx, module, stage.passes)
        if after is not None:
            after(stage.level, module)
