"""Import the forms of TOSA text: constants, resources, older MLIR, names, functions, refusals."""

import re
import struct
from pathlib import Path

import numpy as np
import pytest
from tosa_texts import Array, Writer

from ceras_ir.dialects.graph import ConstantOp
from ceras_ir.frontends.tosa import import_file
from ceras_ir.interpreters.network import run
from ceras_ir.network.function import input_names, main_function, output_names, states_of
from ceras_ir.pipeline.parsing import read_network
from ceras_ir.support.diagnostics import InputError, UnsupportedError, node_names


def module_of(tmp_path: Path, text: str, **options: object):
    path = tmp_path / "network.tosa.mlir"
    path.write_text(text, encoding="utf-8")
    module = import_file(str(path), **options)  # type: ignore[arg-type]
    module.verify()
    return module


def results_of(tmp_path: Path, text: str, *arrays: Array) -> list[Array]:
    module = module_of(tmp_path, text)
    names = input_names(main_function(module))
    return list(run(module, dict(zip(names, arrays, strict=True))).values())


def function(arguments: str, results: str, *lines: str, after: str = "") -> str:
    body = "\n".join(lines)
    return f"func.func @main({arguments}) -> {results} {{\n{body}\n}}\n{after}"


X = np.arange(-8, 8, dtype=np.int8)


def added(constant: str, kind: str = "i32") -> str:
    """Return a function that adds a constant of four elements to the argument."""
    t = f"tensor<4x{kind}>"
    return function(
        f"%x: {t}",
        t,
        f'%c = "tosa.const"() <{{values = {constant} : {t}}}> : () -> {t}',
        f"%y = tosa.add %x, %c : ({t}, {t}) -> {t}",
        f"return %y : {t}",
    )


INTEGERS = struct.pack("<4i", 1, -2, 3, 1 << 30).hex()
FLOATS = struct.pack("<4f", 1, -2.5, float("inf"), 0).hex()


@pytest.mark.parametrize(
    ("constant", "expected"),
    [
        ("dense<[1, -2, 3, 1073741824]>", [1, -2, 3, 1 << 30]),
        (f'dense<"0x{INTEGERS.upper()}">', [1, -2, 3, 1 << 30]),
        ("dense<7>", [7] * 4),
        ('dense<"0x07000000">', [7] * 4),
        ("dense<4294967295>", [-1] * 4),
    ],
)
def test_integer_constants(constant: str, expected: list[int], tmp_path: Path):
    (found,) = results_of(tmp_path, added(constant), np.zeros(4, np.int32))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    "constant", [f'dense<"0x{FLOATS}">', "dense<[1.0, -2.5e+00, 0x7F800000, 0.0]>"]
)
def test_float_constants(constant: str, tmp_path: Path):
    (found,) = results_of(tmp_path, added(constant, "f32"), np.zeros(4, np.float32))
    np.testing.assert_array_equal(found, np.array([1, -2.5, np.inf, 0], np.float32))


def resource(data: str) -> str:
    section = f'{{-#\n  dialect_resources: {{\n    builtin: {{\n      c_1: "0x04000000{data}"\n'
    return added("dense_resource<c_1>") + section + "    }\n  }\n#-}\n"


FORMS = (
    '"tosa.const"() <{values = VALUE : tensor<4xi32>}> : () -> tensor<4xi32>',
    '"tosa.const"() {value = VALUE : tensor<4xi32>} : () -> tensor<4xi32>',
    "tosa.const values(VALUE : tensor<4xi32>) : () -> tensor<4xi32>",
    "arith.constant VALUE : tensor<4xi32>",
)


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_constants(form: str, tmp_path: Path):
    text = resource(INTEGERS)
    start, end = text.index('"tosa.const"'), text.index("\n%y")
    text = text[:start] + form.replace("VALUE", "dense_resource<c_1>") + text[end:]
    (found,) = results_of(tmp_path, text, np.zeros(4, np.int32))
    np.testing.assert_array_equal(found, [1, -2, 3, 1 << 30])


def test_resources(tmp_path: Path):
    (found,) = results_of(tmp_path, resource(INTEGERS), np.zeros(4, np.int32))
    np.testing.assert_array_equal(found, [1, -2, 3, 1 << 30])


WRONG_CONSTANTS = {
    added('dense<"0x0102">'): "2 bytes for tensor<4xi32>, expected 16",
    added('dense<"0x010">'): "pairs of hexadecimal digits",
    added('dense<"zz">'): "pairs of hexadecimal digits",
    added("dense<[1, 2, 3]>"): "3 numbers for the type",
    added("dense<[1, 2, 3, 4294967296]>"): "does not fit i32",
    added("dense<[1, 2, 3, x]>"): "does not fit i32",
    added("dense_resource<c_2>"): "there is no resource 'c_2'",
    resource("0102"): "2 bytes for tensor<4xi32>, expected 16",
    resource(""): "0 bytes for tensor<4xi32>, expected 16",
    function(
        "%x: tensor<4xi32>",
        "tensor<4xi32>",
        "%c = arith.constant dense<1> : tensor<400000x400000xi32>",
        "return %x : tensor<4xi32>",
    ): "expected at most",
}


@pytest.mark.parametrize("text", WRONG_CONSTANTS)
def test_wrong_constants_are_refused(text: str, tmp_path: Path):
    with pytest.raises(InputError, match=re.escape(WRONG_CONSTANTS[text])) as error:
        module_of(tmp_path, text)
    assert error.value.exit_status == 1


OLD_CONVOLUTION = """
!in = tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5:-3>>
!sum = tensor<1x4x4x3x!quant.uniform<i32:f32, 0.5>>
!out = tensor<1x4x4x3x!quant.uniform<i8:f32, 0.25:7>>
module {
  func.func @serving(%x: !in) -> !out {
    %w = "tosa.const"() <{value = dense<[[[[1, -2]]], [[[3, 4]]], [[[-5, 6]]]]>
        : tensor<3x1x1x2xi8>}> : () -> tensor<3x1x1x2xi8>
    %b = "tosa.const"() {value = dense<[10, 20, 30]> : tensor<3xi32>} : () -> tensor<3xi32>
    %0 = "tosa.conv2d"(%x, %w, %b) <{dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>,
        quantization_info = #tosa.conv_quant<input_zp = -3, weight_zp = 0>,
        stride = array<i64: 1, 1>}> : (!in, tensor<3x1x1x2xi8>, tensor<3xi32>) -> !sum
    %1 = tosa.rescale %0 {double_round = true, input_zp = 0 : i32, multiplier = array<i32:
        1073741824>, output_zp = 7 : i32, per_channel = false, scale32 = true,
        shift = array<i8: 31>} : (!sum) -> !out
    %2 = tosa.clamp %1 {max_fp = 3.0e+00 : f32, max_int = 12 : i64, min_fp = 0.0 : f32,
        min_int = 7 : i64} : (!out) -> !out
    return %2 : !out
  }
}
"""
"""A text of MLIR 19."""


def test_attributes_of_older_versions(tmp_path: Path):
    x = np.random.default_rng(0).integers(-128, 128, (1, 4, 4, 2)).astype(np.int8)
    (found,) = results_of(tmp_path, OLD_CONVOLUTION, x)
    sums = (x.astype(np.int64) + 3) @ np.array([[1, -2], [3, 4], [-5, 6]]).T + [10, 20, 30]
    np.testing.assert_array_equal(found, np.clip((sums + 1 >> 1) + 7, 7, 12))


OLD_MOVES = function(
    "%x: tensor<1x2x3xf32>",
    "tensor<2x6xf32>",
    "%0 = tosa.reshape %x {new_shape = array<i64: 2, -1>} : (tensor<1x2x3xf32>) -> tensor<2x3xf32>",
    "%1 = tosa.slice %0 {size = array<i64: 2, 2>, start = array<i64: 0, 1>} : (tensor<2x3xf32>) "
    "-> tensor<2x2xf32>",
    "%2 = tosa.tile %1 {multiples = array<i64: 1, 3>} : (tensor<2x2xf32>) -> tensor<2x6xf32>",
    "return %2 : tensor<2x6xf32>",
)


NEW_MOVES = function(
    "%x: tensor<1x2x3xf32>",
    "tensor<2x6xf32>",
    "%s = tosa.const_shape values(dense<[2, 3]> : tensor<2xindex>) : () -> !tosa.shape<2>",
    "%0 = tosa.reshape %x, %s : (tensor<1x2x3xf32>, !tosa.shape<2>) -> tensor<2x3xf32>",
    "%1 = tosa.clamp %0 min_val(1.0 : f32) max_val(9.0 : f32) nan_mode<PROPAGATE> "
    ": (tensor<2x3xf32>) -> tensor<2x3xf32>",
    "%2 = tosa.concat %1, %0 axis(1) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x6xf32>",
    "return %2 : tensor<2x6xf32>",
)


def test_attributes_as_clauses(tmp_path: Path):
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    (found,) = results_of(tmp_path, NEW_MOVES, x)
    np.testing.assert_array_equal(found, np.concatenate([x[0].clip(1, 9), x[0]], 1))


def test_data_movement_of_older_versions(tmp_path: Path):
    x = np.arange(6, dtype=np.float32).reshape(1, 2, 3)
    (found,) = results_of(tmp_path, OLD_MOVES, x)
    np.testing.assert_array_equal(found, np.tile(x[0, :, 1:], (1, 3)))


T = "tensor<4xf32>"
EXP = f"%0 = tosa.exp %x : ({T}) -> {T}"
NAMED = (
    function(
        f'%x: {T} loc("image"), %1: {T} {{ml_program.identifier = "more"}}',
        f'({T} {{ml_program.identifier = "scores"}}, {T})',
        f"{EXP} loc(#loc4)",
        f"%2 = tosa.tanh %1 : ({T}) -> {T} loc(#loc3)",
        f"%3 = tosa.tanh %2 : ({T}) -> {T} loc(#loc1)",
        f"return %0, %3 : {T}, {T}",
    )
    + '#loc1 = loc("x.mlir":3:7)\n#loc2 = loc("y":1:1)\n#loc3 = loc(fused[#loc1, "net/tanh"])\n'
    + '#loc4 = loc("net/exp"(#loc2))\n'
)


def test_names_are_kept(tmp_path: Path):
    main = main_function(module_of(tmp_path, NAMED))
    assert input_names(main) == ["image", "more"]
    assert output_names(main) == ["scores", "output1"]
    found = [node_names(op) for op in main.body.block.ops][:-1]
    assert found == [["net/exp"], ["net/tanh"], ["tanh at 4:6"]]


CALLS = f"""
func.func private @twice(%x: {T}) -> {T} {{
  %0 = tosa.add %x, %x : ({T}, {T}) -> {T}
  return %0 : {T}
}}
func.func @main(%x: {T}) -> {T} {{
  %0 = func.call @twice(%x) : ({T}) -> {T}
  %1 = call @twice(%0) : ({T}) -> {T}
  return %1 : {T}
}}
"""


def test_calls_are_inlined(tmp_path: Path):
    x = np.arange(4, dtype=np.float32)
    (found,) = results_of(tmp_path, CALLS, x)
    np.testing.assert_array_equal(found, 4 * x)


ALIASES = f"""
func.func private @clipped(%x: {T}) -> {T} {{
  %0 = tosa.clamp %x {{min_val = -1.0 : f32, max_val = 1.0 : f32}} : ({T}) -> {T}
  return %0 : {T}
}}
func.func @main(%x: {T}) -> ({T}, {T}, {T}) {{
  %0 = tosa.clamp %x {{min_val = -2.0 : f32, max_val = 2.0 : f32}} : ({T}) -> {T}
  %1 = func.call @clipped(%0) : ({T}) -> {T}
  %2 = tosa.identity %0 : ({T}) -> {T}
  %3 = tosa.clamp %2 {{min_val = -0.5 : f32, max_val = 0.5 : f32}} : ({T}) -> {T}
  return %0, %1, %3 : {T}, {T}, {T}
}}
"""


def test_values_with_several_uses_do_not_change(tmp_path: Path):
    x = np.array([-3, -0.75, 0.25, 5], np.float32)
    found = results_of(tmp_path, ALIASES, x)
    for array, bound in zip(found, (2, 1, 0.5), strict=True):
        np.testing.assert_array_equal(array, x.clip(-bound, bound))


def test_recursion_is_refused(tmp_path: Path):
    text = CALLS.replace("tosa.add %x, %x : (", "call @twice(%x) : (").replace(
        f"({T}, {T})", f"({T})"
    )
    with pytest.raises(InputError, match="@twice calls itself"):
        module_of(tmp_path, text)


VARIABLE = f"""
module {{
  tosa.variable @total = dense<0.0> : {T}
  func.func @main(%x: {T}) -> {T} {{
    %0 = tosa.variable_read @total : {T}
    %1 = tosa.add %0, %x : ({T}, {T}) -> {T}
    tosa.variable_write @total, %1 : {T}
    return %1 : {T}
  }}
}}
"""


def test_variables_are_states(tmp_path: Path):
    module = module_of(tmp_path, VARIABLE)
    (state,) = states_of(main_function(module))
    assert state.name == "total"
    found = run(module, {"x": np.ones(4, np.float32), "total": np.full(4, 2, np.float32)})
    np.testing.assert_array_equal(found["total/next"], np.full(4, 3))


def test_nonzero_variables_are_refused(tmp_path: Path):
    with pytest.raises(UnsupportedError, match="initial values other than 0"):
        module_of(tmp_path, VARIABLE.replace("dense<0.0>", "dense<1.0>"))


REFUSED = {
    function(
        f"%x: {T}", T, f"%0 = tosa.rfft2d %x : ({T}) -> {T}", f"return %0 : {T}"
    ): r"'rfft2d at 2:6' \(tosa.rfft2d\): error: unsupported tosa.rfft2d: complex values",
    function(
        f"%x: {T}",
        T,
        f'%0 = tosa.custom %x {{domain_name = "d", operator_name = "my_op", '
        f'implementation_attrs = ""}} : ({T}) -> {T}',
        f"return %0 : {T}",
    ): "unsupported tosa.custom: the operation 'my_op'",
    function(
        f"%x: {T}", T, f"%0 = linalg.exp %x : ({T}) -> {T}", f"return %0 : {T}"
    ): "unsupported linalg.exp: only operations of tosa and func",
    function(
        f"%x: {T}", T, f"%0 = tosa.cond_if %x : {T} -> {T} {{ tosa.yield }}", f"return %0 : {T}"
    ): r"'cond_if at 2:6' \(tosa.cond_if\): error: unsupported tosa.cond_if: ",
    function(
        "%x: tensor<4xbf16>", "tensor<4xbf16>", "return %x : tensor<4xbf16>"
    ): r"'x' \(graph input\): error: .*: elements of bf16; convert it to i1, i4, i8, .*, f32, f64",
    function(
        "%x: tensor<?x?xf32>", "tensor<?x?xf32>", "return %x : tensor<?x?xf32>"
    ): "for example with --shape x=1x64$",
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals_name_place_and_remedy(text: str, tmp_path: Path):
    with pytest.raises(UnsupportedError, match=REFUSED[text]):
        module_of(tmp_path, text)


def test_all_refused_operations_are_named(tmp_path: Path):
    w = Writer()
    x = w.input(np.zeros((4, 4), np.float32))
    a = w.op("rfft2d", x, to=(4, 4), element="f32")
    b = w.op("unknown", x, to=(4, 4), element="f32")
    text = w.text(a, b, w.op("exp", a, to=(4, 4), element="f32"))
    with pytest.raises(UnsupportedError) as error:
        module_of(tmp_path, text)
    assert [finding.operator for finding in error.value.findings] == ["tosa.rfft2d", "tosa.unknown"]


def test_extreme_factors_are_refused(tmp_path: Path):
    w = Writer()
    x = w.input(np.zeros(4, np.int8))
    for _ in range(30):
        x = w.rescale(x, [1], [62], element="i8")
    with pytest.raises(UnsupportedError, match="no scales agree with all multipliers"):
        module_of(tmp_path, w.text(x))


MALFORMED = {
    "func.func @main(": "expected a type|expected",
    function(f"%x: {T}", T, EXP): "expected '}'|does not end with func.return|expected",
    function(f"%x: {T}", T, "return %y : " + T): "%y is used before it is defined",
    function(f"%x: {T}", T, EXP, EXP, f"return %0 : {T}"): "%0 is defined twice",
    function(f"%x: {T}", T, f"%0 = tosa.exp %x, %x : ({T}) -> {T}"): "2 operands with 1 types",
    function(
        f"%x: {T}", T, EXP.replace("x : (tensor<4", "x : (tensor<<4"), "return"
    ): "not closed|expected",
    function(f"%x: {T}", T, f"%0, %1 = tosa.exp %x : ({T}) -> {T}"): "2 names for 1 types of res",
    "module { module {} }": "a module inside of a module",
    "#a = 1\n#a = 2": "the alias #a is defined twice",
    "func.func @f() {\n^bb0:\n}": "a network has a single block",
    "": "expected a function @main",
}


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_text_is_refused(text: str, tmp_path: Path):
    with pytest.raises(InputError, match=MALFORMED[text]) as error:
        module_of(tmp_path, text)
    assert error.value.exit_status == 1


def test_open_dimensions(tmp_path: Path):
    text = function(
        "%x: tensor<?x4xf32>",
        "tensor<?x4xf32>",
        "%0 = tosa.exp %x : (tensor<?x4xf32>) -> tensor<?x4xf32>",
        "return %0 : tensor<?x4xf32>",
    )
    for options, rows in (({}, 1), ({"batch": 3}, 3), ({"shapes": {"x": (5, 4)}}, 5)):
        main = main_function(module_of(tmp_path, text, **options))
        assert main.body.block.args[0].type.get_shape() == (rows, 4)  # type: ignore[attr-defined]


def test_inputs_are_set(tmp_path: Path):
    t = "tensor<4xi8>"
    text = function(
        f"%x: {t}, %y: {t}",
        t,
        f"%0 = tosa.maximum %x, %y : ({t}, {t}) -> {t}",
        f"return %0 : {t}",
    )
    module = module_of(tmp_path, text, values={"y": (3.0,)})
    (found,) = run(module, {"x": np.array([-128, 2, 3, 127], np.int8)}).values()
    np.testing.assert_array_equal(found, [3, 3, 3, 127])
    with pytest.raises(InputError, match="integers that int8 holds"):
        module_of(tmp_path, text, values={"y": (300.0,)})
    with pytest.raises(InputError, match="no input named 'z'"):
        module_of(tmp_path, text, values={"z": (1.0,)})


def test_constants_are_folded(tmp_path: Path):
    text = added("dense<[1, -2, 3, 4]>").replace("tosa.add %x, %c", "tosa.add %c, %c")
    ops = list(main_function(module_of(tmp_path, text)).body.block.ops)
    assert len(ops) == 2
    assert isinstance(ops[0], ConstantOp)


def test_another_ending_is_named(tmp_path: Path):
    w = Writer()
    x = w.input(np.zeros(4, np.float32))
    path = tmp_path / "network.mlir"
    path.write_text(w.text(w.op("add", x, x, to=(4,), element="f32")))
    with pytest.raises(UnsupportedError, match=r"from a file with the ending \.tosa\.mlir: rename"):
        read_network(str(path))
    path.write_text(w.text(w.op("exp", x, to=(4,), element="f32")))
    with pytest.raises(InputError, match=r"from a file with the ending \.tosa\.mlir"):
        read_network(str(path))
