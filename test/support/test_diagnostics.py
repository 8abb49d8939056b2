"""What an error prints of its findings."""

from ceras_ir.support.diagnostics import Finding, UnsupportedError


def test_equal_findings_are_printed_once():
    """A bidirectional layer is one node and two operations."""
    gru, conv = Finding("y", "graph.recurrence", "no"), Finding("c", "graph.conv2d", "no")
    lines = UnsupportedError([gru, conv, gru]).lines("model.onnx")
    assert lines == [f"model.onnx: {gru}", f"model.onnx: {conv}"]
