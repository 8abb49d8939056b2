"""Check `output_hashes.py`: equal runs agree, changed constants count, comments do not."""

import json
from pathlib import Path

import numpy as np
import onnx
import onnx_models as om
import output_hashes
from hashed_artefacts import (
    C_TOKEN,
    VERILOG_TOKEN,
    artefacts,
    hash_of,
    without_comments,
    without_docstrings,
)
from hashed_networks import Network, built, only
from onnx import numpy_helper


def with_another_weight(model: onnx.ModelProto) -> onnx.ModelProto:
    """Return the model with a single larger weight in the first layer."""
    for tensor in model.graph.initializer:
        if tensor.name == "w0":
            values = numpy_helper.to_array(tensor).copy()
            values.flat[17] += np.float32(0.25)
            tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))
    return model


def test_two_runs_agree_and_a_changed_constant_is_seen(tmp_path: Path):
    mlp = Network("mlp", lambda: om.mlp(8, 6, 4), only("c"))
    block = Network("block", om.residual_block, only("nnet"))
    before = output_hashes.hashes(mlp) | output_hashes.hashes(block)
    kinds = {"mlp c build", "mlp c c", "mlp c figures", "mlp c quantized"}
    kinds |= {"block nnet figures", "block nnet nnet", "block nnet quantized"}
    assert {" ".join(key) for key in before} == kinds
    output_hashes.write(tmp_path / "hashes.txt", before)
    assert output_hashes.read(tmp_path / "hashes.txt") == before
    changed = Network("mlp", lambda: with_another_weight(om.mlp(8, 6, 4)), only("c"))
    now = output_hashes.hashes(changed) | output_hashes.hashes(block)
    lines = list(output_hashes.differences(before, now))
    assert [line.partition(":")[0] for line in lines] == ["mlp c c", "mlp c quantized"]


def test_a_refusal_has_status_and_message():
    model = om.model([om.node("NonZero", "x", "y")], {"x": (1, 3, 3)}, ["y"])
    found = output_hashes.hashes(Network("places", lambda: model, only("nnet")))
    ((key, text),) = found.items()
    assert key == ("places", "nnet", "refused")
    assert " status 3: places.onnx: " in text and "unsupported" in text


def test_comments_do_not_count_but_strings_do():
    text = 'char *a = "/* kept */ // \\" kept", b = \'"\'; // gone "\n/* gone\n */ int c;\n'
    assert without_comments(text, C_TOKEN) == (
        'char *a = "/* kept */ // \\" kept", b = \'"\';\nint c;\n'
    )
    assert without_comments("a // one \\\n two\nb", C_TOKEN) == "a\nb\n"
    assert without_comments("x = 8'hff; // it's\ny = 4'd1;", VERILOG_TOKEN) == (
        "x = 8'hff;\ny = 4'd1;\n"
    )
    function = 'def f():\n    {}return "x"{}\n'
    first = function.format('"""One."""\n    ', "")
    assert without_docstrings(first) == without_docstrings(function.format("", "  # Two."))
    assert without_docstrings(first) != without_docstrings(first.replace('"x"', '"y"'))


def test_files_count_by_name_and_content(tmp_path: Path):
    def hashed(**changed: str) -> dict[str, str]:
        texts = {"model.c": "int a = 1; // One.\n", "report.json": '{"a": 1, "provenance": {}}'}
        for name, text in (texts | changed).items():
            (tmp_path / name.replace("_", ".")).write_text(text)
        return {kind: hash_of(files) for kind, files in artefacts(tmp_path).items()}

    first = hashed()
    assert hashed(model_c="int a = 1;\n") == first
    assert hashed(model_c="int a = 2;\n")["c"] != first["c"]
    assert hashed(report_json='{"a": 1, "provenance": {"b": 2}}') == first
    assert hashed(report_json=json.dumps({"a": 2}))["figures"] != first["figures"]


def test_there_are_enough_networks_without_shared_models():
    networks = list(built())
    assert len(networks) == len({network.name for network in networks}) >= 25
    builds = {build for network in networks for build in network.builds}
    assert {build.split(":")[0] for build in builds} >= {"arduino", "c", "dataflow", "onnx", "vta"}
