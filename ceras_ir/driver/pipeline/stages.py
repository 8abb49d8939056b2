"""
From a model to placed memory: which passes each target runs, grouped by the level they end at.

Every tool that compiles goes through here, so that `ceras-verify` checks exactly what
`ceras-compile` ships.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.driver.pipeline.instrumentation import PassRunner
from ceras_ir.support.diagnostics import InputError, UsageError

if TYPE_CHECKING:
    from ceras_ir.backends.c.options import Weights
    from ceras_ir.backends.c.passes.encode_weights import EncodingChoice
    from ceras_ir.transforms.quantization.analysis.observer_names import ObserverName
    from ceras_ir.transforms.quantization.choose_precision import Mixed
    from ceras_ir.transforms.quantization.quantize import QuantizePass
    from ceras_ir.transforms.quantization.set_silu import Silu

Convolution = Literal["auto", "direct", "im2col", "kn2row"]
"""How target vta computes convolutions."""

TARGETS = ("c", "arduino", "nnet", "vta", "onnx")
"""What `--target` takes."""

INTEGER_TARGETS = frozenset({"nnet", "vta"})
"""Targets whose accelerator has no floating point: they quantize without being asked."""


SHIFTING_TARGETS = frozenset({"vta"})
"""Targets that rescale by shifts only: scales of a Q/DQ network move to powers of two."""

ENCODING_TARGETS = frozenset({"interp", "c", "arduino"})
"""Targets whose float matrix products may have encoded weights."""


@dataclass(frozen=True)
class PrecisionOptions:
    """Which layers keep more than int8; see the pass `quantize`."""

    int16: tuple[str, ...] = ()
    in_float: tuple[str, ...] = ()
    mixed: "Mixed | None" = None
    budget: float | None = None
    target_sqnr: float | None = None


@dataclass(frozen=True)
class BuildOptions:
    """What the user asked for, as far as passes depend on it."""

    target: str
    quantize: str = "auto"
    calibrate: str | None = None
    board: str | None = None
    io: str = "model"
    prune: str | None = None
    """Options of the pass `prune`, which runs if they are given, even empty."""
    encoding: "EncodingChoice | None" = None
    """How weights of float matrix products lie in flash; see the pass `encode-weights`."""
    winograd: bool = True
    """Whether float windows of target c may be computed by transforms, whose rounding differs."""
    title: str = "model"
    """What the network is called, in comments and as a sketch."""
    recipe: str = "auto"
    """Which passes make better numbers; see the pass `quantize`."""
    beside: frozenset[str] = frozenset()
    """Other targets that are to compute the same integers."""
    silu: "Silu" = "auto"
    """How SiLU is computed; see the pass `set-silu`."""
    observer: "ObserverName" = "mse"
    """How calibration chooses scales; see the pass `observe-ranges`."""
    precision: PrecisionOptions = PrecisionOptions()
    """Which layers keep more than int8."""
    weights: "Weights" = "source"
    """Where the constants of target c are; see `COptions`."""
    convolution: Convolution = "auto"
    """How target vta computes convolutions; see the passes `im2col` and `schedule-tiles`."""
    jobs: int = 1
    """Processes that search for schedules of target vta."""
    regions: tuple[str, ...] = ()
    """The memories that target c has, as `allocate-blocks` takes them; one arena without."""
    emit_hls: bool = False
    """Whether target nnet also writes its FPGA side as a C++ project."""

    @property
    def is_quantized(self) -> bool:
        """Whether the network becomes int8: asked for, calibrated, or the target's only way."""
        if self.quantize == "auto":
            return self.calibrate is not None or self.target in INTEGER_TARGETS
        return self.quantize == "int8"

    def resolved(self, module: ModuleOp) -> "BuildOptions":
        """What `auto` means for this network: int8 if it comes with Q/DQ."""
        if self.quantize != "auto" or self.is_quantized:
            return self
        from ceras_ir.transforms.quantization.analysis.qdq import carries_quantization

        return replace(self, quantize="int8") if carries_quantization(module) else self

    def for_host(self) -> "BuildOptions":
        """The same, compiled only to run once on this machine: C compilers are slow on text."""
        return replace(self, weights="file") if self.target == "c" else self

    def check(self) -> None:
        """Refuse options that contradict each other, before any work."""
        if not self.is_quantized and self.target in INTEGER_TARGETS:
            raise UsageError(
                f"target {self.target} computes on int8: use --quantize int8, or --target c"
            )
        if self.io == "int8" and not self.is_quantized:
            raise UsageError("--io int8 needs a quantized network: add --quantize int8")
        if not self.winograd and self.target != "c":
            raise UsageError(f"--no-winograd is for target c, not {self.target}")
        if not self.is_quantized and self.precision != PrecisionOptions():
            raise UsageError(
                "--int16, --float and --mixed choose layers of a quantized network: add "
                "--quantize int8"
            )
        if self.quantize == "none" and self.calibrate is not None:
            raise UsageError("--calibrate is for quantization, and --quantize none forbids it")
        if self.weights != "source" and self.target != "c":
            raise UsageError(f"--weights is for target c, not {self.target}")
        if self.convolution != "auto" and self.target != "vta":
            raise UsageError(f"--convolution is for target vta, not {self.target}")
        if self.regions and self.target != "c":
            raise UsageError(
                f"--regions is for target c, not {self.target}: the sides of nnet share one "
                "memory, an accelerator has its own, and a sketch has one"
            )
        if self.emit_hls and self.target != "nnet":
            raise UsageError(f"--emit-hls is for target nnet, not {self.target}")
        if self.encoding is not None and self.target not in ENCODING_TARGETS:
            raise UsageError(f"--encoding is for targets c and arduino, not {self.target}")
        self.pruning()
        self._check_board()

    def _check_board(self) -> None:
        """Refuse a board that does not exist, or that the target has no use for."""
        match self.target:
            case "arduino":
                from ceras_ir.backends.c.board import load_board

                load_board(self.arduino_board)
            case "vta" if self.board is not None:
                from ceras_ir.backends.vta.board import load_board

                load_board(self.board)
            case "c" if self.board is not None:
                from ceras_ir.backends.c.machine import load_machine

                load_machine(self.board)
            case "onnx" if self.board is not None:
                raise UsageError("target onnx runs anywhere and takes no --board")
            case _:
                pass

    @property
    def arduino_board(self) -> str:
        """The board of target arduino."""
        from ceras_ir.backends.c.board import DEFAULT_BOARD

        return self.board or DEFAULT_BOARD

    def pruning(self) -> "tuple[ModulePass, ...]":
        """The pass that was asked for with `prune`, if any."""
        if self.prune is None:
            return ()
        from ceras_ir.driver.pipeline.pass_options import build
        from ceras_ir.transforms.graph.prune import PrunePass

        return (build(PrunePass, self.prune),)


@dataclass(frozen=True)
class Stage:
    """The passes that lead to one level."""

    level: str
    passes: tuple[ModulePass, ...]


def read_network(
    path: str, *, batch: int = 1, shapes: Mapping[str, Sequence[int]] | None = None
) -> ModuleOp:
    """The float graph of an ONNX file, or the module of an IR text, verified."""
    from ceras_ir.driver.pipeline.context import load_context, load_universe
    from ceras_ir.driver.pipeline.parsing import is_model, load_module
    from ceras_ir.driver.pipeline.verification import verify_module

    if not is_model(path) and not path.endswith(".mlir"):
        raise InputError("expected a model ending in .onnx or IR text ending in .mlir", path)
    ctx = load_context(None if is_model(path) else load_universe())
    module = load_module(ctx, path, batch=batch, shapes=shapes)
    verify_module(module)
    return module


def quantize_pass(options: BuildOptions) -> "QuantizePass":
    """Quantization as the user asked for it."""
    from ceras_ir.transforms.quantization.quantize import QuantizePass

    kept, targets = options.precision, options.beside | {options.target}
    return QuantizePass(
        options.calibrate,
        recipe=options.recipe,
        silu=options.silu,
        one_shift=not SHIFTING_TARGETS.isdisjoint(targets),
        observer=options.observer,
        mixed=kept.mixed,
        budget=kept.budget,
        target_sqnr=kept.target_sqnr,
        int16=kept.int16,
        float=kept.in_float,
    )


def offers(options: BuildOptions) -> tuple[ModulePass, ...]:
    """
    What says which forms of functions an accelerator leaves room for, where `silu` leaves it open:
    shifts by their time, finer tables where measuring will choose among them.
    """
    if options.silu != "auto":
        return ()
    from ceras_ir.transforms.quantization.offer_forms import OfferFormsPass
    from ceras_ir.transforms.quantization.rewrites.recipes import AUTO

    measured = options.calibrate is not None and options.recipe == AUTO
    match options.target:
        case "nnet" if measured:
            return (OfferFormsPass("nnet", options.board),)
        case "vta":
            return (OfferFormsPass("vta", options.board),)
        case _:
            return ()


def front_stages(options: BuildOptions) -> list[Stage]:
    """What does not depend on the target: fusion and quantization."""
    from ceras_ir.transforms.graph.fuse import FusePass

    folding: tuple[ModulePass, ...] = ()
    if not options.is_quantized:
        from ceras_ir.transforms.quantization.fold_dequantized_constants import (
            FoldDequantizedConstantsPass,
        )

        folding = (FoldDequantizedConstantsPass(),)
    stages = [Stage("fused graph", (FusePass(), *folding))]
    if pruning := options.pruning():
        stages.append(Stage("pruned graph", pruning))
    if options.is_quantized:
        from ceras_ir.transforms.quantization.drop_tie_breakers import DropTieBreakersPass
        from ceras_ir.transforms.quantization.snap_scales import SnapScalesPass

        snap: tuple[ModulePass, ...] = ()
        if options.target in SHIFTING_TARGETS:
            snap = DropTieBreakersPass(), SnapScalesPass()
        stages.append(Stage("quantized graph", (*snap, *offers(options), quantize_pass(options))))
        if options.io == "int8":
            from ceras_ir.transforms.quantization.strip_border_quantization import (
                StripBorderQuantizationPass,
            )

            stages.append(Stage("int8 border", (StripBorderQuantizationPass(),)))
    if options.target == "arduino" or options.encoding is not None:
        from ceras_ir.backends.c.passes.encode_weights import EncodeWeightsPass

        board = options.arduino_board if options.target == "arduino" else None
        passes = (EncodeWeightsPass(options.encoding or "auto", board),)
        stages.append(Stage("encoded graph", passes))
    return stages


def target_stages(options: BuildOptions) -> list[Stage]:
    """What the target adds to the graph: devices, tiles and memory."""
    from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
    from ceras_ir.transforms.memory.reorder_for_memory import ReorderForMemoryPass
    from ceras_ir.transforms.placement.place import PlacePass

    match options.target:
        case "nnet":
            return [
                Stage("placed graph", (PlacePass(target="nnet", board=options.board),)),
                Stage(
                    "memory",
                    (
                        ReorderForMemoryPass(io=True, alignment=64),
                        AllocateBlocksPass(io=True, alignment=64, in_slices=True, target="nnet"),
                    ),
                ),
            ]
        case "vta":
            from ceras_ir.backends.vta.emit import DEFAULT_BOARD_NAME
            from ceras_ir.backends.vta.passes.convert_graph_to_tile import ConvertGraphToTilePass
            from ceras_ir.backends.vta.passes.fold_packing import FoldPackingPass
            from ceras_ir.backends.vta.passes.im2col import Im2colPass
            from ceras_ir.backends.vta.passes.space_to_depth import SpaceToDepthPass
            from ceras_ir.backends.vta.passes.tile import TilePass

            board = options.board or DEFAULT_BOARD_NAME
            placing = PlacePass(target="vta", board=board, jobs=options.jobs)
            match asked := options.convolution:
                case "im2col":
                    reshaping, windows = (Im2colPass("im2col", board),), "auto"
                case "auto":
                    reshaping, windows = (SpaceToDepthPass(), Im2colPass(board=board)), "auto"
                case _:
                    reshaping, windows = (SpaceToDepthPass(),), asked
            return [
                Stage("placed graph", (*reshaping, placing)),
                Stage("packed graph", (ConvertGraphToTilePass(board), FoldPackingPass())),
                Stage("tile", (TilePass(board=board, convolution=windows, jobs=options.jobs),)),
                Stage("memory", (AllocateBlocksPass(alignment=256),)),
            ]
        case "onnx":
            # Nobody but the reader decides where it runs and in which memory.
            return [Stage("placed graph", (PlacePass(target="c"),))]
        case _:
            return [
                Stage("placed graph", (PlacePass(target="c"),)),
                Stage(
                    "memory",
                    (ReorderForMemoryPass(), AllocateBlocksPass(regions=options.regions)),
                ),
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
        runner.run(ctx, module, stage.passes, stage.level)
        if after is not None:
            after(stage.level, module)
