"""Options are read by the types of the pass's fields, and pipelines by their braces."""

from dataclasses import dataclass
from typing import Literal

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from ceras_ir.driver.opt.argv import parse_arguments
from ceras_ir.pipeline.pass_options import build
from ceras_ir.pipeline.pipeline_text import PassRequest, parse_pipeline
from ceras_ir.support.diagnostics import UsageError


@dataclass(frozen=True)
class ExamplePass(ModulePass):
    """A pass with an option of every type."""

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
        ("number", "option 'number' of pass 'example' must be int, got ''"),
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
    assert arguments.requests == [
        PassRequest("b"),
        PassRequest("c"),
        PassRequest("d"),
        PassRequest("a", "x=1 y=2"),
        PassRequest("b", "z=3"),
    ]
