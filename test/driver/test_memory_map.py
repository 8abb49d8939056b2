"""The picture of a memory plan is well-formed and shows every buffer where it lies."""

import xml.etree.ElementTree as ElementTree
from pathlib import Path

from ceras_ir.driver.compile.tool import main

NETWORK = """
func.func @main(%x: tensor<4xf32>) -> tensor<16xf32> {
  %a = graph.concat %x, %x {axis = 0 : i64} : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
  %b = graph.concat %a, %a {axis = 0 : i64} : (tensor<8xf32>, tensor<8xf32>) -> tensor<16xf32>
  %c = graph.unary <relu> %b : tensor<16xf32>
  %d = graph.unary <exp> %c : tensor<16xf32>
  func.return %d : tensor<16xf32>
}
"""


def test_every_buffer_is_drawn(tmp_path: Path):
    model = tmp_path / "a&b.mlir"
    model.write_text(NETWORK)
    folder = tmp_path / "out"
    assert main([str(model), "--target", "c", "--html", "-o", str(folder)]) == 0
    text = (folder / "memory.html").read_text(encoding="utf-8")
    start, end = text.index("<svg"), text.index("</svg>") + len("</svg>")
    picture = ElementTree.fromstring(text[start:end])
    titles = [title.text or "" for title in picture.iter("title")]
    # The relu lies over what it reads; the result is the caller's.
    assert len(titles) == 2
    assert "steps [1, 4)" in titles[1]
    assert "peak 96 bytes, lower bound 96, gap 0.00%" in text and "a&amp;b.mlir for c" in text
