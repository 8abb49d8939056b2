"""Check the bytes that caches must not hold around a launch, by hand for a small plan."""

from xdsl.parser import Parser

from ceras_ir.backends.vta.execution.image import Maintenance, cache_maintenance
from ceras_ir.pipeline.context import load_context

NETWORK = """
func.func private @kernel(%0: memref<1x1x16xi8, "dram">, %1: memref<1x1x16xi8, "dram">) {{
  func.return
}}
func.func @main(%x: tensor<1x16x!T>) -> tensor<1x16x!T>
    attributes {{mem.arena = #mem.arena<size = 512, alignment = 64>}} {{
  %a = mem.pack %x {{mem.block = #mem.block<id = 0, offset = 0, size = 16>}}
    : (tensor<1x16x!T>) -> tensor<1x1x16x!T>
  %b = mem.launch @kernel(%a) {{mem.block = #mem.block<id = 1, offset = 64, size = 16>}}
    : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %c = mem.launch @kernel(%b)
    {{{continues}mem.block = #mem.block<id = 2, offset = {last}, size = 16>}}
    : (tensor<1x1x16x!T>) -> tensor<1x1x16x!T>
  %y = mem.unpack %c {{mem.block = #mem.block<id = 3, offset = 64, size = 16>}}
    : (tensor<1x1x16x!T>) -> tensor<1x16x!T>
  func.return %y : tensor<1x16x!T>
}}
"""


def maintenance(last: int, continues: str = "") -> list[Maintenance]:
    text = NETWORK.format(last=last, continues=continues).replace(
        "!T", "!quant.uniform<i8:f32, 0.5>"
    )
    return cache_maintenance(Parser(load_context(), text).parse_module())


def test_what_the_host_wrote_and_what_it_reads():
    """
    The first result shares the address of a result of the host, which writes it in the previous
    run. It is cleaned too.
    """
    first, second = maintenance(128)
    assert first == Maintenance([(0, 16), (64, 16)], [])
    assert second == Maintenance([], [(128, 16)])


def test_a_result_over_what_was_cleaned():
    """The host does not write there after the clean, so no line can be dirty."""
    first, second = maintenance(0)
    assert first.clean == [(0, 16), (64, 16)]
    assert second == Maintenance([], [(0, 16)])


def test_launches_that_start_together():
    """The host never loads the first result. The second result may overwrite data of the host."""
    assert maintenance(128, "mem.continues, ") == [
        Maintenance([(0, 16), (64, 16)], [(128, 16)]),
    ]
    assert maintenance(0, "mem.continues, ") == [
        Maintenance([(0, 16), (64, 16)], [(0, 16)]),
    ]
