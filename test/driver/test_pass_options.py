"""Parse options by the types of the fields of a pass, and pipelines by their braces."""

import dataclasses
import types
from dataclasses import dataclass
from typing import Literal, Union, get_args, get_origin, get_type_hints

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.driver.opt.argv import parse_arguments
from ceras_ir.pipeline.context import load_universe
from ceras_ir.pipeline.pass_options import (
    PassRequest,
    build,
    build_pipeline,
    parse_pipeline,
    spell_pipeline,
)
from ceras_ir.support.diagnostics import UsageError


@dataclass(frozen=True)
class ExamplePass(ModulePass):
    """A pass with an option of each type."""

    name = "example"

    number: int = 0
    rate: float = 0.0
    file: str = ""
    on: bool = False
    sizes: tuple[int, ...] = ()
    limit: int | None = None
    kind: Literal["a", "b"] = "a"

    def __post_init__(self) -> None:
        if self.number == 13:
            raise ValueError("number must not be 13")

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@dataclass(frozen=True)
class NeedsPass(ModulePass):
    """A pass with an option that has no default."""

    name = "needs"

    max_size: int

    def apply(self, ctx: Context, op: ModuleOp) -> None: ...


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ExamplePass()),
        ("number=8 rate=8", ExamplePass(number=8, rate=8.0)),
        ("number=-0x10 rate=1e-3", ExamplePass(number=-16, rate=1e-3)),
        ("file=8", ExamplePass(file="8")),
        ("file=../a/b.npz", ExamplePass(file="../a/b.npz")),
        ('file="with space=\\"1\\", x" on', ExamplePass(file='with space="1", x', on=True)),
        ("on=false", ExamplePass(on=False)),
        ("on=true sizes=1,2,3", ExamplePass(on=True, sizes=(1, 2, 3))),
        ("sizes=4 limit=5", ExamplePass(sizes=(4,), limit=5)),
        ("limit=none kind=b", ExamplePass(kind="b")),
    ],
)
def test_options(text: str, expected: ExamplePass):
    assert build(ExamplePass, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("number=x", "option 'number' of pass 'example' must be int, got 'x'"),
        ("number", "option 'number' of pass 'example' needs a value: write number=<int>"),
        ("number 3", "option 'number' of pass 'example' needs a value: write number=3"),
        ("on=maybe", "must be bool, got 'maybe'"),
        ("sizes=1,x", "must be int,..., got '1,x'"),
        ("limit=x", "must be int or none, got 'x'"),
        ("kind=c", "must be a|b, got 'c'"),
        ("size=1", "pass 'example' has no option 'size'; did you mean 'sizes'?"),
        ('file="x', "missing closing quote"),
        ("number=13", "pass 'example': number must not be 13"),
    ],
)
def test_wrong_options(text: str, message: str):
    with pytest.raises(UsageError) as error:
        build(ExamplePass, text)
    assert message in str(error.value)


PASSES = load_universe().all_passes


def values_of(hint: object) -> st.SearchStrategy[object]:
    """Draw values of an option of the type `hint`."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        # A tuple of one element is written as the element, which may be another choice.
        one = st.one_of([values_of(choice) for choice in arguments])
        return one.filter(lambda value: not isinstance(value, tuple) or value[1:] != ())
    if origin is tuple:
        return st.lists(values_of(arguments[0])).map(tuple)
    if origin is Literal:
        return st.sampled_from(arguments)
    simple: dict[object, st.SearchStrategy[object]] = {
        int: st.integers(),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        str: st.text() | st.sampled_from(["plain", "none", "8", "a,b", "x y", "{", '"', "\\"]),
    }
    return simple.get(hint, st.none())


def options_of(name: str) -> dict[str, object]:
    """Return the types of the options of a pass."""
    cls = PASSES[name]()
    hints = get_type_hints(cls)
    return {f.name: hints[f.name] for f in dataclasses.fields(cls) if f.init and f.name != "name"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("name", list(filter(options_of, sorted(PASSES))))
def test_spelled_passes_are_read_back(name: str):
    cls = PASSES[name]()

    @settings(max_examples=20, database=None)
    @given(st.fixed_dictionaries({key: values_of(hint) for key, hint in options_of(name).items()}))
    def read_back(values: dict[str, object]) -> None:
        try:
            pass_ = cls(**values)
        except (ValueError, UsageError):  # The pass itself checks combinations of values.
            return
        (again,) = build_pipeline(parse_pipeline(spell_pipeline([pass_])), PASSES)
        assert again == pass_

    read_back()


@given(st.lists(st.tuples(*(values_of(t) for t in (int, float, str, bool))), max_size=3))
def test_spelled_pipelines_are_read_back(values: list[tuple[int, float, str, bool]]):
    passes = [
        ExamplePass(number, rate, file, on) for number, rate, file, on in values if number != 13
    ]
    text = spell_pipeline(passes)
    table = {"example": lambda: ExamplePass}
    assert build_pipeline(parse_pipeline(text) if text else [], table) == passes


def test_options_at_their_defaults_are_not_spelled():
    pass_ = ExamplePass(8, file="a b", sizes=(1, 2), limit=3)
    assert spell_pipeline([pass_]) == 'example{number=8 file="a b" sizes=1,2 limit=3}'
    assert spell_pipeline([ExamplePass(), ExamplePass()]) == "example,example"


def test_required_option():
    assert build(NeedsPass, "max-size=3") == build(NeedsPass, "max_size=3") == NeedsPass(3)
    with pytest.raises(UsageError, match=r"pass 'needs' needs the option 'max-size' \(int\)"):
        build(NeedsPass, "")


def test_pipelines():
    assert parse_pipeline("a,b{x=1,2 y=3},c") == [
        PassRequest("a"),
        PassRequest("b", "x=1,2 y=3"),
        PassRequest("c"),
    ]
    assert parse_pipeline("mlir-opt[cse,func.func(dce{x=1})]") == [
        PassRequest("mlir-opt", nested="cse,func.func(dce{x=1})")
    ]


def test_flags_and_pipelines_keep_their_order():
    arguments = parse_arguments(
        ["--b", "in.mlir", "-p", "c,d", "--a=x=1 y=2", "--b={z=3}"], ["a", "b", "c", "d"]
    )
    assert arguments.input == "in.mlir"
    assert list(arguments.requests) == [
        PassRequest("b"),
        PassRequest("c"),
        PassRequest("d"),
        PassRequest("a", "x=1 y=2"),
        PassRequest("b", "z=3"),
    ]
