"""Check typical errors of users: the message states the error, the location and the remedy."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from ceras_ir.command.entry_point import commands

DRAWN = np.random.default_rng(0)


@dataclass(frozen=True)
class Mistake:
    """A command line, the exit status, and the error, location and remedy of the message."""

    command: str
    status: int
    error: str
    location: str
    remedy: str


C = "ceras-compile cam.onnx --target c -o out"
ARDUINO = "ceras-compile cam.onnx --target arduino -o out"
C_MODEL = "--target c -o out"
VERIFY = "ceras-verify cam.onnx --targets c --calibrate cal.npz"

MISTAKES = {
    1: Mistake(f"{C} --calibrat cal.npz", 2, "unknown option", "--calibrat", "'--calibrate'?"),
    2: Mistake("ceras-compile cam.onnx --target cc -o out", 2, "unknown target", "'cc'", "'c'?"),
    3: Mistake("ceras-compile cam.onnx --target c", 2, "required", "-o", "--help"),
    4: Mistake(
        f"ceras-compile camm.onnx {C_MODEL}", 1, "No such file", "camm.onnx:", "'cam.onnx'?"
    ),
    5: Mistake(
        f"ceras-compile model.pt {C_MODEL}",
        1,
        "expected a model",
        "model.pt:",
        "torch.onnx.export(",
    ),
    6: Mistake(
        f"ceras-compile model.tflite {C_MODEL}",
        1,
        "not a TensorFlow Lite model, or a damaged one",
        "model.tflite:",
        "export it again",
    ),
    7: Mistake(f"ceras-compile text.onnx {C_MODEL}", 1, "but text", "text.onnx:", "export"),
    8: Mistake(f"ceras-compile cut.onnx {C_MODEL}", 1, "truncated", "cut.onnx:", "export the file"),
    9: Mistake(f"{C} --calibrate img.npz", 1, "no input is named 'img'", "img.npz:", "'image'?"),
    10: Mistake(
        f"{C} --calibrate large.npz",
        1,
        "'image' has shape [4, 1, 32, 32]",
        "large.npz:",
        "expected [N, 1, 28, 28]",
    ),
    12: Mistake(f"{C} --calibrate uint8.npz", 0, "type uint8", "'image'", "divide pixels by 255"),
    13: Mistake(f"{C} --calibrate nhwc.npz", 1, "NHWC", "nhwc.npz:", "array.transpose(0, 3, 1, 2)"),
    14: Mistake(f"{C} --calibrate nan.npz", 1, "NaN or infinite", "nan.npz:", "np.nan_to_num"),
    15: Mistake(
        f"{C} --calibrate cal.npy",
        1,
        "not an .npz file",
        "cal.npy:",
        "np.savez('cal.npz', image=np.load('cal.npy'))",
    ),
    16: Mistake(
        f"{C} --calibrate labels.npz",
        1,
        "no input is named 'labels'",
        "labels.npz:",
        "the network has image: rename or remove the array",
    ),
    17: Mistake(
        "ceras-compile cam.onnx --target vta -o out",
        0,
        "no calibration data",
        "observe-ranges:",
        "--calibrate FILE.npz",
    ),
    18: Mistake(f"{C} --calibrate zeros.npz", 0, "is 0 everywhere", "'image'", "typical inputs"),
    19: Mistake(
        f"ceras-compile nonzero.onnx {C_MODEL}",
        3,
        "unsupported NonZero",
        "node 'odd'",
        "end the model before it",
    ),
    20: Mistake(
        f"ceras-compile custom.onnx {C_MODEL}",
        3,
        "unsupported mine::Foo",
        "node 'odd'",
        "export the model without it",
    ),
    21: Mistake(f"ceras-compile dynamic.onnx {C_MODEL}", 3, "unsupported", "image", "--shape"),
    22: Mistake(f"ceras-compile rellu.onnx {C_MODEL}", 3, "Rellu", "node 'odd'", "'Relu'?"),
    23: Mistake(
        "ceras-compile large.onnx --target arduino --board nano_33_iot -o out",
        3,
        "unsupported size",
        "large.onnx:",
        "What would fit",
    ),
    24: Mistake(
        "ceras-compile cam.onnx --target arduino --board pico2 -o out",
        2,
        "has no board",
        "'pico2'",
        "'pico_2'?",
    ),
    25: Mistake(
        f"{C} --calibrate cal.npz --int16 conv1",
        2,
        "no layer is named",
        "int16:",
        "ceras-opt --fuse",
    ),
    26: Mistake(f"{C} --board pynq", 2, "target c has no board", "'pynq'", "(boards: "),
    27: Mistake(
        "ceras-compile cam.onnx --target c -o /proc/x/out",
        1,
        "cannot write",
        "/proc/x/out:",
        "write to another folder",
    ),
    28: Mistake(f"{C} --why nosuch", 2, "no node 'nosuch'", "--why", "(nodes: conv_first, "),
    29: Mistake("ceras-run cam.onnx --outputs out.npz", 2, "required", "--inputs", "--help"),
    30: Mistake(
        "ceras-run cam.onnx --inputs cal.npz --outputs no/out.npz",
        1,
        "no such folder",
        "no:",
        "create it",
    ),
    31: Mistake(
        "ceras-compare cam.onnx --inputs cal.npz --labels three.npz",
        1,
        "3 labels",
        "three.npz:",
        "for 8 samples",
    ),
    32: Mistake("ceras-compare cam.onnx", 2, "required", "--inputs", "--help"),
    33: Mistake(
        "ceras-compile cam.onnx --target gpu -o out", 2, "unknown target", "'gpu'", "(targets: "
    ),
    34: Mistake("ceras-opt cam.onnx --fuze", 2, "unknown option", "'--fuze'", "'--fuse'?"),
    35: Mistake(
        "ceras-opt cam.onnx --quantize", 0, "no calibration data", "observe-ranges:", "--calibrate"
    ),
    36: Mistake(
        "ceras-opt cam.onnx --quantize=target=arm", 2, "unknown target", "'arm'", "(targets: "
    ),
    37: Mistake(
        "ceras-opt cam.onnx --load-pass-plugin=fo.py", 1, "No such file", "fo.py:", "'foo.py'?"
    ),
    38: Mistake(f"{C} --board banan.toml", 1, "No such file", "banan.toml:", "'banana.toml'?"),
    39: Mistake(f"{C} --calibrate pixels.npz", 0, "like pixels", "'image'", "divide pixels by 255"),
    40: Mistake("ceras-report", 2, "required", "DIR", "--help"),
    41: Mistake(
        "ceras-nnet dump cam.onnx", 1, "not a valid nnet file", "cam.onnx:", "--target nnet -o DIR"
    ),
    42: Mistake("ceras-nnet dump cam.nnet", 1, "No such file", "cam.nnet:", "'cam.onnx'?"),
    43: Mistake(
        "ceras-plan cal.npz --capacity 100 --check",
        1,
        "not a text file",
        "cal.npz:",
        "id,lower,upper,size",
    ),
    44: Mistake(f"{VERIFY} --inputs pixels.npz", 1, "saturate", "'image'", "divide pixels by 255"),
    45: Mistake(f"{C} --board typo.toml", 1, "core 'cortexm4'", "typo.toml:", "'cortex-m4'?"),
    46: Mistake(
        f"{ARDUINO} --board nofqbn.toml", 1, "no field 'fqbn'", "nofqbn.toml:", "arduino-cli"
    ),
    47: Mistake(
        "ceras-opt foo.mlir --load-dialect-plugin=foo.py",
        1,
        "raised ValueError: width must be even",
        "foo.mlir:2:3:",
        "raise xdsl.utils.exceptions.VerifyException",
    ),
    48: Mistake(
        "ceras-compile cam.onnx --load-target-plugin=nodevice.py --target toy -o out",
        2,
        "class ToyDevice has no attribute 'device'",
        "target toy:",
        "device = ",
    ),
    49: Mistake(
        "ceras-run cam.onnx --load-target-plugin=noopen.py --target toy --inputs cal.npz "
        "--outputs out.npz",
        3,
        "cannot run what it compiles",
        "target toy",
        "no method 'open' (docs/new-target.md)",
    ),
    50: Mistake(
        "ceras-opt brace.mlir", 1, "expected", "brace.mlir:4:1:", "'}' that closes the '{'"
    ),
    51: Mistake(
        "ceras-opt type.mlir",
        1,
        "expected a type or attribute of kind 'tensor'",
        "type.mlir:2:3:",
        "the form is: graph.softmax $input",
    ),
    52: Mistake(
        f"{C} --input-image nhwc --calibrate pixels.npz",
        1,
        "and not in 0 to 255",
        "pixels.npz:",
        "use raw uint8 pixels of shape",
    ),
    54: Mistake(
        "ceras-run cam.onnx --inputs img.npz --outputs out.npz",
        1,
        "no input is named 'img'; the network has image",
        "img.npz:",
        "np.savez('img.npz', image=np.load('img.npz')['img'])",
    ),
    55: Mistake(
        "ceras-verify cam.onnx --targets c --inputs flat.npz",
        1,
        "'image' has shape [8, 784], expected [N, 1, 28, 28]",
        "flat.npz:",
        "array.reshape(-1, 1, 28, 28)",
    ),
    56: Mistake(
        "ceras-compare cam.onnx --inputs single.npz",
        1,
        "'image' has shape [28, 28, 1], expected [N, 1, 28, 28]",
        "single.npz:",
        "array.transpose(2, 0, 1)[None]",
    ),
    57: Mistake(
        "ceras-run cam.onnx --inputs labels.npz --outputs out.npz",
        1,
        "no input is named 'labels'",
        "labels.npz:",
        "missing: 'image' of shape [N, 1, 28, 28]",
    ),
    58: Mistake(
        "ceras-compile cam.onnx -o out", 2, "required", "--target", "--target is one of arduino, c,"
    ),
    59: Mistake(
        "ceras-compile cam.onnx -o out --target --force",
        2,
        "expected one argument",
        "--target",
        "--target is one of arduino, c,",
    ),
    60: Mistake(
        "ceras-compile cam.onnx -o out --target arduino --board uno",
        2,
        "target arduino has no board",
        "'uno'",
        "did you mean 'uno_r4_minima' or 'uno_r4_wifi'?",
    ),
    61: Mistake(
        f"{C} --prune sparsity",
        2,
        "needs a value",
        "option 'sparsity' of pass 'prune'",
        "write sparsity=<float>",
    ),
    62: Mistake(
        "ceras-opt cam.onnx -p prune{sparsity\t0.5}",
        2,
        "needs a value",
        "option 'sparsity' of pass 'prune'",
        "write sparsity=0.5",
    ),
    63: Mistake(
        f"{C} --silu float --rows float",
        0,
        "options without effect",
        "--silu, --rows:",
        "add --quantize int8",
    ),
    64: Mistake(
        f"{C} --quantize int8 --budget 0.2 --calibration-samples 3",
        0,
        "options without effect",
        "--calibration-samples, --budget:",
        "add --calibrate DATA.npz",
    ),
    65: Mistake(
        f"{C} --calibration-jobs 2",
        0,
        "options without effect",
        "--calibration-jobs:",
        "add --calibrate DATA.npz",
    ),
    66: Mistake(
        f"{C} --calibrate cal.npz --recipe round-weights --budget 0.2",
        0,
        "options without effect",
        "--budget:",
        "add it to --recipe",
    ),
    67: Mistake(
        "ceras-run cam.onnx --inputs cal.npz --outputs out.npz --recipe none",
        0,
        "options without effect",
        "--recipe:",
        "add --quantize int8",
    ),
    68: Mistake(
        "ceras-verify cam.onnx --targets c --no-reference --budget 0.2",
        0,
        "options without effect",
        "--budget:",
        "add --calibrate DATA.npz",
    ),
    69: Mistake(
        f"{C} --quantize int8 --int16 conv_first --float conv_first",
        0,
        "int16 and float name 'conv_first'",
        "set-precision:",
        "remove it from one of them",
    ),
    70: Mistake(
        f"{C} --calibrate cal.npz --budget 5", 0, "permits 500% more time", "--budget 5", "0.05"
    ),
    71: Mistake(f"{C} --budget 5%", 2, "expected a share", "--budget:", "write 0.05"),
    72: Mistake(f"{C} --set image=3", 0, "fixes all inputs", "--set", "remove --set"),
    73: Mistake(f"{C} --target onnx", 0, "'onnx' replaces 'c'", "--target", "remove one"),
    74: Mistake(f"{C} -o out2", 0, "'out2' replaces 'out'", "-o", "remove one"),
    75: Mistake(f"{C} --calibrate ", 2, "the text is empty", "--calibrate:", "give a file"),
    76: Mistake(
        f"{C} --calibrate cal.npz,", 2, "separated by commas", "--calibrate:", "'cal.npz,'"
    ),
    77: Mistake(
        "ceras-run cam.onnx --inputs cal.npz --outputs ", 2, "empty", "--outputs:", "give a file"
    ),
    78: Mistake(f"{C} --batch 1e3", 2, "expected an integer of at least 1", "--batch:", "'1e3'"),
    79: Mistake(
        f"{C} --recipe none,round-weights",
        2,
        "'none' is a recipe without",
        "--recipe:",
        "remove it",
    ),
    80: Mistake(
        "ceras-opt cam.onnx -p prune{sparsity=0.5\tsparsity=0.7}",
        2,
        "is given twice",
        "option 'sparsity' of pass 'prune'",
        "remove one",
    ),
    81: Mistake("ceras-opt cam.onnx -p xyzzy", 2, "unknown pass", "'xyzzy'", "--list-passes"),
    82: Mistake(f"{C} --set img=3", 1, "no input named 'img' to set", "cam.onnx:", "'image'?"),
    83: Mistake(f"{C} --shape img=1x1x28x28", 1, "no input named 'img'", "cam.onnx:", "'image'?"),
    84: Mistake(
        "ceras-run cam.onnx --inputs text.onnx --outputs out.npz",
        1,
        "not an .npz file",
        "text.onnx:",
        "np.savez('data.npz', image=array)",
    ),
    85: Mistake(f"{C} --at cse", 2, "expected 2 arguments", "--at:", "(--at LEVEL PIPELINE)"),
    86: Mistake(
        "ceras-compare cam.onnx --inputs cal.npz --against foo",
        2,
        "'foo' is not an optional pass",
        "--against:",
        "(passes: fit-inputs,",
    ),
    87: Mistake(
        "ceras-compare cam.onnx --inputs cal.npz --labels three.npz --metric topk:1",
        2,
        "No module named 'topk'",
        "--metric",
        "give FILE.py:FUNCTION",
    ),
    88: Mistake(
        "ceras-compile cam.onnx -target c -o out", 2, "unknown option", "'-target'", "'--target'?"
    ),
    89: Mistake(f"{C} --save-temps=x", 2, "has no value", "--save-temps:", "write only the option"),
    90: Mistake(
        "ceras-compile cam.onnx --target C -o out", 2, "unknown target", "'C'", "did you mean 'c'?"
    ),
    53: Mistake("ceras-explore study.toml", 1, "invalid choice: 'hwc'", "study.toml:", "'nhwc'?"),
}

PLUGIN_PASSES = '''
from dataclasses import dataclass
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriteWalker, RewritePattern
from xdsl.utils.exceptions import DiagnosticException


class Erase(RewritePattern):
    """Erase an operation that has uses."""

    def match_and_rewrite(self, op, rewriter):
        if op.name == "graph.unary":
            rewriter.erase_op(op)


@dataclass(frozen=True)
class ErasePass(ModulePass):
    """Crash in a pattern."""

    name = "erase"

    def apply(self, ctx, op):
        PatternRewriteWalker(Erase()).rewrite_module(op)


@dataclass(frozen=True)
class RefusePass(ModulePass):
    """Refuse the network, and print it."""

    name = "refuse"

    def apply(self, ctx, op):
        raise DiagnosticException(f"refused {op}")
'''

MLIR = """func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  %0 = graph.softmax %x {axis = 1 : i64} : TYPE
  func.return %0 : tensor<1x4xf32>
}
"""

PLUGIN_DIALECT = '''
from xdsl.ir import Dialect
from xdsl.irdl import IRDLOperation, irdl_op_definition, result_def


@irdl_op_definition
class FooOp(IRDLOperation):
    """An operation with a wrong verifier."""

    name = "mine.foo"
    res = result_def()

    def verify_(self):
        raise ValueError("width must be even")


Mine = Dialect("mine", [FooOp])
'''

PLUGIN_TARGET = '''
from dataclasses import dataclass
from ceras_ir.targets.capabilities import Accelerator
from ceras_ir.targets.protocol import PLACED, Emission, Stage, Target
from ceras_ir.transforms.placement import PlacePass


class ToyDevice(Accelerator):
    """A device without a name."""

    def why_not(self, op):
        return None


@dataclass(frozen=True)
class ToyTarget(Target):
    """A target whose files nothing runs."""

    name = "toy"

    @classmethod
    def accelerator(cls, board, jobs=1):
        return ACCELERATOR

    def lower(self):
        return [Stage(PLACED, (PlacePass("toy"),))]

    def emit(self, module, title):
        return Emission([])
'''

STUDY = """
[models.m]
file = "cam.onnx"
calibrate = "cal.npz"
[targets.c]
[options]
input_image = ["hwc"]
[objectives]
minimize = ["flash_bytes"]
"""


def network(
    operator: str = "Relu", *, domain: str = "", channels: int = 8, batch: int | str = 1
) -> ModelProto:
    """Build a convolution, `operator`, and a fully connected layer."""

    def drawn(*shape: int):
        return DRAWN.normal(0, 0.3, shape).astype(np.float32)

    nodes = [
        helper.make_node("Conv", ["image", "w"], ["c"], "conv_first", pads=[1, 1, 1, 1]),
        helper.make_node(operator, ["c"], ["r"], "odd", domain=domain),
        helper.make_node("GlobalAveragePool", ["r"], ["g"], "pool"),
        helper.make_node("Flatten", ["g"], ["f"], "flat"),
        helper.make_node("Gemm", ["f", "m"], ["y"], "dense", transB=1),
    ]
    shape = (batch, 1, 28, 28) if batch == 1 else (1, 1, batch, batch)
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 10))],
        [
            numpy_helper.from_array(drawn(channels, 1, 3, 3), "w"),
            numpy_helper.from_array(drawn(10, channels), "m"),
        ],
    )
    opsets = [helper.make_opsetid("", 13), helper.make_opsetid("mine", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("mistakes")
    models = {
        "cam": network(),
        "rellu": network("Rellu"),
        "nonzero": network("NonZero"),
        "custom": network("Foo", domain="mine"),
        "dynamic": network(batch="side"),
        "large": network(channels=4000),
    }
    for name, model in models.items():
        (place / f"{name}.onnx").write_bytes(model.SerializeToString())
    (place / "cut.onnx").write_bytes(network().SerializeToString()[:-60])
    (place / "text.onnx").write_text("This is a text.\n")
    for name in ("model.pt", "model.tflite"):
        (place / name).write_bytes(b"PK\3\4")
    image = DRAWN.uniform(0, 1, (8, 1, 28, 28)).astype(np.float32)
    pixels = np.rint(image * 255)
    wrong = image.copy()
    wrong[0, 0, 1, 1] = np.nan
    arrays = {
        "cal": image,
        "large": np.zeros((4, 1, 32, 32), np.float32),
        "uint8": pixels.astype(np.uint8),
        "nhwc": image.transpose(0, 2, 3, 1),
        "flat": image.reshape(8, -1),
        "single": image[0].transpose(1, 2, 0),
        "nan": wrong,
        "zeros": np.zeros_like(image),
        "pixels": pixels,
    }
    for name, array in arrays.items():
        np.savez(place / f"{name}.npz", image=array)
    np.savez(place / "img.npz", img=image)
    np.savez(place / "labels.npz", labels=np.arange(8))
    np.savez(place / "three.npz", labels=np.arange(3))
    np.save(place / "cal.npy", image)
    board = (files("ceras_ir.backends.c") / "boards" / "nano_33_ble.toml").read_text()
    boards = {
        "typo": board.replace('"cortex-m4"', '"cortexm4"'),
        "banana": board.replace('"cortex-m4"', '"banana"'),
        "nofqbn": board.replace("fqbn =", "# fqbn ="),
    }
    for name, text in boards.items():
        (place / f"{name}.toml").write_text(text)
    (place / "foo.py").write_text(PLUGIN_DIALECT)
    (place / "passes.py").write_text(PLUGIN_PASSES)
    (place / "nodevice.py").write_text(PLUGIN_TARGET.replace("ACCELERATOR", "ToyDevice()"))
    (place / "noopen.py").write_text(PLUGIN_TARGET.replace("ACCELERATOR", "None"))
    (place / "study.toml").write_text(STUDY)
    (place / "foo.mlir").write_text(
        'func.func @main() {\n  %0 = "mine.foo"() : () -> i32\n  func.return\n}\n'
    )
    (place / "brace.mlir").write_text(MLIR.replace("TYPE", "tensor<1x4xf32>").removesuffix("}\n"))
    form = "(tensor<1x4xf32>) -> tensor<1x4xf32>"
    (place / "type.mlir").write_text(MLIR.replace("TYPE", form))
    return place


@pytest.fixture(autouse=True)
def in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(folder)
    yield


def run(command: str) -> int:
    """Run a command in this process."""
    tool, *argv = command.split(" ")
    point = commands()[tool.removeprefix("ceras-")]
    return point.load()(argv)


@pytest.mark.parametrize(
    ("number", "command"), [(number, each.command) for number, each in MISTAKES.items()]
)
def test_mistake(number: int, command: str, capfd: pytest.CaptureFixture[str]) -> None:
    mistake = MISTAKES[number]
    assert run(command) == mistake.status
    message = capfd.readouterr().err
    lines = [line for line in message.splitlines() if mistake.error in line]
    assert lines, message
    for part in (mistake.location, mistake.remedy):
        assert part in (lines[0] if "--help" not in part else message)
    assert "Traceback" not in message


def test_all_mistakes_have_a_case() -> None:
    assert sorted(MISTAKES) == [*range(1, 11), *range(12, 91)]


@pytest.mark.parametrize(
    ("name", "status", "parts"),
    [
        ("erase", 70, ['passes.py", line 13, in match', "'erase' crashed: ", "reproducer: "]),
        ("refuse", 1, ["cam.onnx: error: refuse: refused", "more lines"]),
    ],
)
def test_a_failure_of_a_plugin_is_short(
    name: str, status: int, parts: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    """The network is not printed, and the line of the plugin is."""
    assert run(f"ceras-opt cam.onnx --load-pass-plugin=passes.py --{name}") == status
    message = capfd.readouterr().err
    assert len(message.splitlines()) <= 20 and max(map(len, message.splitlines())) < 300
    for part in parts:
        assert part in message


def test_ranges_of_synthetic_samples_are_refused_below_0_db(
    capfd: pytest.CaptureFixture[str],
) -> None:
    assert run("ceras-verify cam.onnx --targets c --inputs pixels.npz") == 1
    assert "below --floor 10: give data" in capfd.readouterr().err


def test_a_byte_order_mark_is_accepted(capfd: pytest.CaptureFixture[str]) -> None:
    Path("bom.mlir").write_text("\ufeff" + MLIR.replace("TYPE", "tensor<1x4xf32>"), "utf-8")
    assert run("ceras-opt bom.mlir") == 0
