"""Refuse text whose printed types, element types, names or attributes are wrong."""

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from tosa_cases import CASES, build

from ceras_ir.frontends.tosa import import_file, verifier
from ceras_ir.frontends.tosa.operation import OPERATIONS
from ceras_ir.frontends.tosa.signatures import SIGNATURES
from ceras_ir.support.diagnostics import InputError, UnsupportedError

IMAGE, WEIGHTS, RESULT = "tensor<1x4x4x2xf32>", "tensor<3x1x1x2xf32>", "tensor<1x4x4x3xf32>"

TEXT = f"""\
tosa.variable @sum = dense<0.0> : {RESULT}
func.func private @bounded(%v: {RESULT}) -> {RESULT} {{
  %0 = tosa.clamp %v {{min_val = 0.0 : f32, max_val = 6.0 : f32}} : ({RESULT}) -> {RESULT}
  return %0 : {RESULT}
}}
func.func @main(%x: {IMAGE}) -> {RESULT} {{
  %w = "tosa.const"() <{{values = dense<0.5> : {WEIGHTS}}}> : () -> {WEIGHTS}
  %b = "tosa.const"() <{{values = dense<1.0> : tensor<3xf32>}}> : () -> tensor<3xf32>
  %z = "tosa.const"() <{{values = dense<0.0> : tensor<1xf32>}}> : () -> tensor<1xf32>
  %s = tosa.const_shape {{values = dense<[1, 16, 3]> : tensor<3xindex>}} : () -> !tosa.shape<3>
  %c = tosa.conv2d %x, %w, %b, %z, %z {{acc_type = f32, dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}} : ({IMAGE}, {WEIGHTS}, tensor<3xf32>, tensor<1xf32>, tensor<1xf32>) -> {RESULT}
  %r = tosa.reshape %c, %s : ({RESULT}, !tosa.shape<3>) -> tensor<1x16x3xf32>
  %d = func.call @bounded(%c) : ({RESULT}) -> {RESULT}
  %e = tosa.variable_read @sum : {RESULT}
  %f = tosa.add %d, %e : ({RESULT}, {RESULT}) -> {RESULT}
  tosa.variable_write @sum, %f : {RESULT}
  return %f : {RESULT}
}}
"""  # noqa: E501

OTHER = "tensor<1x4x4x2xf16>"

WRONG = (
    (f"return %f : {RESULT}", f"return %f : {IMAGE}", f"%f has the type {RESULT}, but {IMAGE}"),
    (f"-> {RESULT} {{\n  %w", f"-> {IMAGE} {{\n  %w", f"results of @main are {IMAGE}"),
    (f"return %f : {RESULT}", "return", "the types are none, but the results of @main are"),
    ("conv2d %x", "conv2d %c", "%c is used before it is defined"),
    (f": ({IMAGE}", f": ({OTHER}", f"%x has the type {IMAGE}, but {OTHER} is printed"),
    (
        f"}}> : () -> {WEIGHTS}",
        "}> : () -> tensor<3x1x1x2xf16>",
        "for the type tensor<3x1x1x2xf16>",
    ),
    ("-> !tosa.shape<3>", "-> !tosa.shape<2>", "for the type !tosa.shape<2>"),
    ("acc_type = f32", "acc_type = bf17", "acc_type bf17, expected f32 or f64"),
    ("acc_type = f32", "acc_type = f16", "acc_type f16, expected f32 or f64"),
    ("%b = ", "%w = ", "%w is defined twice"),
    (f"(%c) : ({RESULT}) -> {RESULT}", f"(%c) : ({RESULT}) -> {IMAGE}", "results of @bounded are"),
    (f"@bounded(%c) : ({RESULT})", f"@bounded(%x) : ({IMAGE})", "arguments of @bounded are"),
    ("call @bounded", "call @bound", "no function @bound with a body; did you mean 'bounded'?"),
    ("variable_read @sum", "variable_read @sun", "no variable 'sun'; did you mean 'sum'?"),
    (f"@sum : {RESULT}", f"@sum : {IMAGE}", f"the variable 'sum' has the type {RESULT}, not"),
    (
        "tosa.conv2d %x",
        "tosa.conv2dd %x",
        "tosa has no operation 'conv2dd'; did you mean 'conv2d'?",
    ),
    ("tosa.clamp", "tosa.clmp", "tosa has no operation 'clmp'; did you mean 'clamp'?"),
    ("stride = ", "strides = ", "has no attribute 'strides'; did you mean 'stride'?"),
    ("max_val", "max_vl", "has no attribute 'max_vl'; did you mean 'max_val'?"),
)


MATRICES = "%a: tensor<1x16x5xf32>, %b: tensor<1x4x5xf32>"
PRODUCT = "%y = tosa.matmul %a, %b : (tensor<1x16x5xf32>, tensor<1x4x5xf32>) -> tensor<1x16x5xf32>"

WRONG_PARAMETERS = (
    (TEXT.replace("6.0", "-6.0"), "min_val = 0.0, exceeds the upper bound, max_val = -6.0"),
    (TEXT.replace(", max_val = 6.0 : f32", ""), "attribute 'max_val' is missing; given: min_val"),
    (TEXT.replace(", stride = array<i64: 1, 1>", ""), "attribute 'stride' is missing; given: acc_"),
    (
        f"func.func @main({MATRICES}) -> tensor<1x16x5xf32> {{\n{PRODUCT}\n"
        "return %y : tensor<1x16x5xf32>\n}\n",
        "%a of shape [1, 16, 5] times %b of shape [1, 4, 5], expected [N, H, C] and [N, C, W]",
    ),
)


def imported(tmp_path: Path, text: str) -> None:
    path = tmp_path / "network.tosa.mlir"
    path.write_text(text)
    import_file(str(path)).verify()


@pytest.mark.parametrize(("text", "message"), WRONG_PARAMETERS)
def test_wrong_parameters_are_named(text: str, message: str, tmp_path: Path):
    with pytest.raises(InputError, match=re.escape(message)) as error:
        imported(tmp_path, text)
    assert error.value.exit_status == 1


def test_a_missing_end_is_named(tmp_path: Path):
    """After each space of the last operations, the text can end."""
    start = TEXT.index("%e = ")
    for end in [i for i, c in enumerate(TEXT) if c == " " and i > start]:
        with pytest.raises(InputError, match=r"the text ends here|not closed"):
            imported(tmp_path, TEXT[:end])


def test_the_text_is_imported_without_a_change(tmp_path: Path):
    imported(tmp_path, TEXT)


@pytest.mark.parametrize(("old", "new", "message"), WRONG)
def test_wrong_text_is_refused(old: str, new: str, message: str, tmp_path: Path):
    assert TEXT.count(old) == 1
    with pytest.raises(InputError, match=re.escape(message)) as error:
        imported(tmp_path, TEXT.replace(old, new))
    assert error.value.exit_status == 1


WRONG_ELEMENTS = (
    ("clamp", "f32", "f16"), ("exp", "i8", "i8"), ("add", "i8, i16", "i8"),
    ("add", "i8, i8", "i32"), ("equal", "f32, f32", "f32"), ("select", "i8, f32, f32", "f32"),
    ("bitwise_and", "f32, f32", "f32"), ("logical_not", "i8", "i8"), ("argmax", "f32", "f32"),
    ("gather", "f32, f32", "f32"), ("concat", "f32, f32, i8", "f32"), ("matmul", "i8, i8", "i16"),
    ("conv2d", "f32, f16", "f32"), ("avg_pool2d", "i8", "i32"), ("rescale", "f32", "i8"),
    ("table", "i8, i8", "i16"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "operands", "result"), WRONG_ELEMENTS)
def test_wrong_elements_are_refused(name: str, operands: str, result: str, tmp_path: Path):
    kinds = [f"tensor<4x{element}>" for element in operands.split(", ")]
    names = [f"%{i}" for i in range(len(kinds))]
    arguments = ", ".join(f"{n}: {kind}" for n, kind in zip(names, kinds, strict=True))
    to = f"tensor<4x{result}>"
    line = f"%y = tosa.{name} {', '.join(names)} : ({', '.join(kinds)}) -> {to}"
    text = f"func.func @main({arguments}) -> {to} {{\n{line}\nreturn %y : {to}\n}}\n"
    expected = re.escape(f"has the element types ({operands}) -> {result}, expected (")
    with pytest.raises(InputError, match=expected) as error:
        imported(tmp_path, text)
    assert error.value.exit_status == 1


def test_a_product_has_wider_floats(tmp_path: Path):
    a, b, y = "tensor<1x2x3xf16>", "tensor<1x3x4xf16>", "tensor<1x2x4xf32>"
    line = f"%y = tosa.matmul %a, %b : ({a}, {b}) -> {y}"
    imported(tmp_path, f"func.func @f(%a: {a}, %b: {b}) -> {y} {{\n{line}\nreturn %y : {y}\n}}\n")


@pytest.mark.parametrize("name", sorted(CASES)[::4])
def test_equal_types_are_necessary(name: str, tmp_path: Path):
    """Another printed type of the first operand is an error."""
    text = build(name)[0]
    lines = text.split("\n")
    places = [(i, line.index(": (") + 3) for i, line in enumerate(lines) if ": (tensor" in line]
    for i, start in places:
        if "func.func" in lines[i]:
            continue
        changed = f"{lines[i][:start]}tensor<9x9xi1>{lines[i][lines[i].index('>', start) + 1 :]}"
        with pytest.raises(InputError, match="but tensor<9x9xi1> is printed"):
            imported(tmp_path, "\n".join([*lines[:i], changed, *lines[i + 1 :]]))


def test_all_imported_operations_have_element_types():
    without = {"custom", "variable_read", "variable.read", "variable_write", "variable.write"}
    assert set(SIGNATURES) | without == set(OPERATIONS)


@pytest.mark.parametrize("name", ["hypotenuse", "matmul_t", "avg_pool2d_adaptive", "add_shape"])
def test_unknown_operations_are_unsupported(name: str, tmp_path: Path):
    line = f"%0 = tosa.{name} %x : (tensor<4xf32>) -> tensor<4xf32>"
    function = f"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {{\n{line}\n"
    with pytest.raises(UnsupportedError, match=rf"unsupported tosa\.{name}: "):
        imported(tmp_path, f"{function}return %0 : tensor<4xf32>\n}}\n")


def test_suggestions_for_many_unknown_names_are_limited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    searched: list[str] = []

    def search(name: str, known: Iterable[str], least: float) -> str:
        searched.append(name)
        return ""

    monkeypatch.setattr(verifier, "did_you_mean", search)
    kind = "tensor<4xf32>"
    lines = [f"%{i} = tosa.unknown{i} %x {{k{i} = 1}} : ({kind}) -> {kind}" for i in range(500)]
    text = "\n".join(
        [f"func.func @main(%x: {kind}) -> {kind} {{", *lines, f"return %0 : {kind}\n}}"]
    )
    with pytest.raises(UnsupportedError):
        imported(tmp_path, text)
    assert len(searched) == verifier.MAX_UNKNOWN
