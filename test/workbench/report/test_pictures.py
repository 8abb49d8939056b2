"""Check that pictures are well-formed and draw all parts at the correct positions."""

import xml.etree.ElementTree as ElementTree

from ceras_ir.pipeline.context import load_context, load_universe
from ceras_ir.pipeline.parsing import parse_text
from ceras_ir.pipeline.report import memory_plan
from ceras_ir.support.timeline import Bar, Lane, Timeline, bars_of, timeline_picture
from ceras_ir.transforms.memory.allocate_blocks import AllocateBlocksPass
from ceras_ir.workbench.pages import breakable
from ceras_ir.workbench.report.content import Device, Row, content_of
from ceras_ir.workbench.report.graph_picture import graph_picture, module_picture
from ceras_ir.workbench.report.memory_picture import memory_picture
from ceras_ir.workbench.report.roofline import roofline

NETWORK = """
func.func @main(%x: tensor<4xf32>) -> tensor<16xf32> {
  %a = graph.concat %x, %x {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %b = graph.concat %a, %a {axis = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %c = graph.unary <relu> %b : tensor<16xf32>
  %d = graph.unary <exp> %c : tensor<16xf32>
  func.return %d : tensor<16xf32>
}
"""


def svg(text: str) -> ElementTree.Element:
    start, end = text.index("<svg"), text.index("</svg>") + len("</svg>")
    return ElementTree.fromstring(
        text[start:end].replace(' xmlns="http://www.w3.org/2000/svg"', "")
    )


def test_every_buffer_is_drawn():
    module = parse_text(load_context(load_universe()), NETWORK, "t")
    AllocateBlocksPass().apply(load_context(), module)
    plan = memory_plan(module)
    assert plan is not None
    content = content_of({"memory": plan}, "t", "c")
    assert content.plan is not None
    text = memory_picture(content.plan)
    titles = [title.text or "" for title in svg(text).iter("title")]
    # The relu reuses the block of its operand; the result belongs to the caller.
    assert len(titles) == 2
    assert "steps [1, 4)" in titles[1]
    assert "peak 96 bytes, lower bound 96, gap 0.00%" in text


def test_every_operation_and_edge_is_drawn():
    module = parse_text(load_context(load_universe()), NETWORK, "t")
    picture = svg(module_picture(module))
    assert [g.get("data-layer") for g in picture.iter("g")] == [None, "0", "1", "2", "3", None]
    assert len([p for p in picture.iter("path") if p.get("class") == "edge"]) == 5


def row(number: int, *inputs: int | str, name: str = "") -> Row:
    return Row(number, name, "conv2d", "cpu", 1000 * number, 100, (1,), inputs, 2.0, {})


def test_a_shortcut_is_an_arc():
    rows = [row(0, "x"), row(1, 0), row(2, 1, 0, name="<&>")]
    picture = svg(graph_picture(rows, ["x"], {"y": 2}))
    kinds = [p.get("class") for p in picture.iter("path")]
    assert kinds.count("arc") == 1 and kinds.count("edge") == 4


def test_dots_lie_below_their_roof():
    rows = [row(i, "x") for i in range(1, 4)]
    text = roofline(rows, [Device("cpu", 2000.0, 200.0)], {"cpu": "#123456"})
    assert text is not None
    picture = svg(text)
    heights = [float(c.get("cy", "")) for c in picture.iter("circle")]
    roof = picture.find("polyline")
    assert roof is not None and len(heights) == 3
    top = min(float(point.split(",")[1]) for point in roof.get("points", "").split())
    assert min(heights) >= top
    assert roofline(rows, [], {}) is None


def test_long_names_wrap_after_separators():
    assert breakable("a/b_1.<c>.d, 0.5") == "a/<wbr>b_<wbr>1.&lt;c&gt;.<wbr>d, 0.5"
    assert breakable("GlobalAveragePool 3D") == "Global<wbr>Average<wbr>Pool 3D"


def test_bars_have_the_time_of_their_spans():
    bars = list(bars_of([(0, 300, "a"), (300, 301, "b"), (301, 600, "a")], 600))
    # A bar shorter than a column is merged with its neighbors.
    assert [(b.start, b.end, b.kind) for b in bars][:1] == [(0, 300, "a")]
    lane = Lane("<l>", 1.0, (Bar(0, 300, "a"),))
    picture = svg(timeline_picture(Timeline("t", 1200, "", ("a",), (lane,))))
    (drawn,) = [r for r in picture.iter("rect") if r.find("title") is not None]
    assert (drawn.get("width"), drawn.get("x")) == ("600", "120")
    title = drawn.find("title")
    assert title is not None and title.text == "a, cycles 0 to 600"
