"""Read files whose content has another format than the ending of their name."""

from pathlib import Path

import onnx
import pytest

from ceras_ir.pipeline.parsing import read_network
from ceras_ir.support.diagnostics import InputError, missing_file_remedy

INPUT = onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [4])
GRAPH = onnx.helper.make_graph([], "g", [INPUT], [INPUT])
MODEL = onnx.helper.make_model(GRAPH, producer_name="test").SerializeToString()

CONTENTS = (
    (MODEL, "ONNX model: rename it to end in .onnx"),
    (MODEL + b"\xff", "ONNX model: rename it to end in .onnx"),
    (b"\x1c\0\0\0TFL3\x14\0\xff", "TensorFlow Lite model: rename it to end in .tflite"),
    (b"ML\xefR\x0dMLIR22", "MLIR bytecode: print it as text with mlir-opt"),
    (b"// caf\xe9", "text in another encoding, such as Latin-1: save it as UTF-8"),
    ("// café".encode("utf-16"), "it is text in UTF-16: save it as UTF-8"),
    (b"\x7fELF\x02\x01\x01\0\xd0", "a compiled program or object (ELF): give the model itself"),
    (b"\x1f\x8b\x08\0", "it is compressed: unpack it with gunzip"),
    (b"PK\x03\x04\xff", "a ZIP archive: unpack it, or rename a .pt2 file to end so"),
    (b"\x89HDF\r\n\x1a\n", "as Keras writes: ceras.load(model) loads models"),
    (b"\x01\x02\xff", "(byte 0xff at offset 2)"),
)


@pytest.mark.parametrize(("data", "message"), CONTENTS)
@pytest.mark.parametrize("ending", [".tosa.mlir", ".mlir"])
def test_the_format_of_a_file_is_named(data: bytes, message: str, ending: str, tmp_path: Path):
    path = tmp_path / f"network{ending}"
    path.write_bytes(data)
    with pytest.raises(InputError) as error:
        read_network(str(path))
    assert str(error.value).startswith("not UTF-8 text") and str(error.value).endswith(message)
    assert error.value.file == str(path)


def test_a_folder_is_refused_with_all_endings(tmp_path: Path):
    with pytest.raises(InputError, match=r"a folder, expected a model ending in \.onnx or .*mlir"):
        read_network(str(tmp_path))


def test_equal_endings_are_no_hint(tmp_path: Path):
    (tmp_path / "18name.tosa.mlir").touch()
    found = missing_file_remedy(str(tmp_path / "nofile.tosa.mlir"))
    assert found.startswith("; files that end in .mlir in the folder")
    assert missing_file_remedy(str(tmp_path / "18nam.tosa.mlir")).startswith("; did you mean")
    assert missing_file_remedy(str(tmp_path / "18name.tosa.mlr")).startswith("; did you mean")
