"""Check that equal findings and equal remarks are printed a single time."""

import pytest

from ceras_ir.support.diagnostics import Finding, UnsupportedError, each_once, remark


def test_equal_findings_are_printed_once():
    """A bidirectional layer is a single node and two operations."""
    gru, conv = Finding("y", "graph.recurrence", "no"), Finding("c", "graph.conv2d", "no")
    lines = UnsupportedError([gru, conv, gru]).lines("model.onnx")
    assert lines == [f"model.onnx: {gru}", f"model.onnx: {conv}"]


def test_equal_remarks_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        with each_once():
            for line in ("few samples", "few samples", "no samples"):
                remark(line)
    assert capsys.readouterr().err.splitlines() == ["few samples", "no samples"] * 2
    for _ in range(2):
        remark("few samples")
    assert capsys.readouterr().err.splitlines() == ["few samples"] * 2
