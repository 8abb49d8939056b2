"""Check that `ceras-run` without `--outputs` prints the outputs of the first samples."""

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Tool

from ceras_ir.driver.answers import answers
from ceras_ir.network.artefacts import TensorInfo


def network(shape: str, kind: str = "f32") -> str:
    tensor = f"tensor<{shape}x{kind}>"
    return f"""
func.func @main(%x: {tensor} {{graph.name = "x"}}) -> ({tensor} {{graph.name = "y"}}) {{
  %y = graph.unary <relu> %x : {tensor}
  func.return %y : {tensor}
}}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "vector.mlir").write_text(network("1x6"))
    scores = np.tile(np.array([0.5, 3, 0.25, 2, 2, 1], np.float32), (13, 1))
    scores[1, 5] = 7
    np.savez(tmp_path / "vector.npz", x=scores)
    (tmp_path / "classes.txt").write_text("ant\nbee\ncat\ndog\nelk \nfox\n\n")
    return tmp_path


FIRST = "  sample 0: 1 (3), 3 (2), 4 (2), 5 (1), 0 (0.5)"


def test_the_largest_elements_of_a_vector_are_printed(tool: Tool, folder: Path) -> None:
    """Equal elements keep their order. Ten samples are run and printed."""
    done = tool("ceras-run", "vector.mlir", "--inputs", "vector.npz")
    lines = done.stdout.splitlines()
    assert (done.status, lines[:2]) == (0, ["y [1, 6]: the 5 largest of 6", FIRST])
    assert lines[2] == "  sample 1: 5 (7), 1 (3), 3 (2), 4 (2), 0 (0.5)"
    assert lines[10].startswith("  sample 9: ") and len(lines) == 12
    assert lines[11] == "3 more samples: --outputs OUT.npz writes the outputs of all samples"


def test_labels_name_the_classes(tool: Tool, folder: Path) -> None:
    run = ("ceras-run", "vector.mlir", "--inputs", "vector.npz", "--labels")
    done = tool(*run, "classes.txt")
    assert "  sample 0: bee (3), dog (2), elk (2), fox (1), ant (0.5)\n" in done.stdout
    (folder / "few.txt").write_text("ant\nbee\n")
    done = tool(*run, "few.txt")
    assert done.status == 1
    assert "few.txt: error: 2 labels fit none of the outputs: y [1, 6]; the" in done.stderr
    (folder / "wrong.txt").write_bytes(b"\xff\xfe")
    for name, message in (("clases.txt", "no such file"), ("wrong.txt", "not a text file")):
        done = tool(*run, name)
        assert done.status == 1 and f"{name}: error: {message}" in done.stderr
    done = tool(*run, "classes.txt", "--outputs", "out.npz")
    assert done.status == 2 and "remove --labels or --outputs" in done.stderr


def test_a_compiled_folder_prints_the_same(tool: Tool, folder: Path) -> None:
    for arguments in (["-o", "out"], ["-o", "int8", "--calibrate", "vector.npz", "--io", "int8"]):
        assert tool("ceras-compile", "vector.mlir", "--target", "c", *arguments).status == 0
    done = tool("ceras-run", "out", "--inputs", "vector.npz")
    assert done.stdout.splitlines()[1] == FIRST
    # The stored integers are printed as real values.
    np.savez(folder / "stored.npz", x=np.array([[-128, 127, -128, 0, -1, -2]], np.int8))
    done = tool("ceras-run", "int8", "--inputs", "stored.npz")
    (output,) = json.loads((folder / "int8" / "manifest.json").read_text())["outputs"]
    largest = output["scale"] * (127 - output["zero_point"])
    assert largest > 1
    assert done.stdout.splitlines()[1].startswith(f"  sample 0: 1 ({largest:.4g}), 3 (")


@pytest.mark.parametrize(
    ("shape", "lines"),
    [
        ("1x3", ["y [1, 3]", "  sample 0: 0, 1, 2"]),
        ("1x2x2x4", ["y [1, 2, 2, 4]", "  sample 0: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13"]),
        ("1x2x3x4", ["y [1, 2, 3, 4]", "  sample 0: minimum 0, maximum 23, mean 11.5"]),
    ],
)
def test_other_outputs(tool: Tool, tmp_path: Path, shape: str, lines: list[str]) -> None:
    (tmp_path / "n.mlir").write_text(network(shape))
    extents = list(map(int, shape.split("x")))
    np.savez(tmp_path / "x.npz", x=np.arange(np.prod(extents), dtype=np.float32).reshape(extents))
    found = tool("ceras-run", "n.mlir", "--inputs", "x.npz").stdout.splitlines()
    assert found[0] == lines[0] and found[1].startswith(lines[1]) and len(found) == 2


def test_integers_with_names_are_printed_as_names() -> None:
    tensor = TensorInfo("label", (1,), "int64", labels=("no", "yes"))
    results = [{"label": np.array([1])}, {"label": np.array([1234567])}]
    assert answers(results, [tensor], ["a", "b"]) == ["label [1]", "  a: yes", "  b: 1234567"]


DETECTOR = """
func.func @main(%x: tensor<1x8x7x1xf32> {graph.name = "x"})
    -> (tensor<1x8x7xf32> {graph.name = "y"}) {
  %y = graph.reshape %x : (tensor<1x8x7x1xf32>) -> tensor<1x8x7xf32>
  func.return %y : tensor<1x8x7xf32>
}
"""


@pytest.mark.needs("workbench")
def test_objects_of_a_detector(tool: Tool, tmp_path: Path) -> None:
    """Rows have center, size, objectness and scores of two classes, as in YOLOv5."""
    (tmp_path / "n.mlir").write_text(DETECTOR)
    rows = np.zeros((2, 8, 7, 1), np.float32)
    rows[0, 2, :, 0] = 3, 4, 2, 4, 1, 0.25, 0.75
    rows[0, 5, :, 0] = 6, 6, 2, 2, 0.5, 1, 0
    np.savez(tmp_path / "x.npz", x=rows)
    (tmp_path / "classes.txt").write_text("cat\ndog\n")
    run = ("ceras-run", "n.mlir", "--inputs", "x.npz")
    done = tool(*run, "--labels", "classes.txt")
    assert done.stdout.splitlines() == [
        "objects: left, top, right, bottom in pixels of the 8x7 input",
        "  sample 0: 2 objects",
        "    dog (0.75): 2.0, 2.0, 4.0, 6.0",
        "    cat (0.5): 5.0, 5.0, 7.0, 7.0",
        "  sample 1: 0 objects",
    ]
    assert "    1 (0.75): 2.0, 2.0, 4.0, 6.0\n" in tool(*run).stdout
    # Scores above 1 do not belong to a detector.
    np.savez(tmp_path / "x.npz", x=rows * 2)
    assert tool(*run).stdout.startswith("y [1, 8, 7]\n  sample 0: minimum 0, maximum ")
    assert tool(*run, "--labels", "classes.txt").status == 1


def test_a_vector_with_missing_values() -> None:
    tensor = TensorInfo("y", (6,), "float32")
    values = np.array([np.nan, 1, 2, 3, np.inf, 5], np.float32)
    (_, line) = answers([{"y": values}], [tensor], ["a"])
    assert line == "  a: 4 (inf), 5 (5), 3 (3), 2 (2), 1 (1)"


def test_an_image_and_a_folder_of_images(tool: Tool, tmp_path: Path) -> None:
    """Files name the images, and `--image` options apply to both."""
    images = pytest.importorskip("PIL.Image")
    (tmp_path / "photos" / "more").mkdir(parents=True)
    (tmp_path / "n.mlir").write_text(network("1x3x1x2"))
    for number, name in enumerate(("b.png", "more/a.png")):
        pixels = np.full((1, 2, 3), 51 * (number + 1), np.uint8)
        images.fromarray(pixels).save(tmp_path / "photos" / name)
    run = ("ceras-run", "n.mlir", "--inputs")
    lines = tool(*run, "photos").stdout.splitlines()
    assert [line.split(",")[0] for line in lines[1:]] == ["  b.png: 0.2", "  more/a.png: 0.4"]
    lines = tool(*run, "photos/b.png", "--image-scale", "51").stdout.splitlines()
    assert lines[1:] == ["  b.png: 1, 1, 1, 1, 1, 1"]
    assert tool(*run, "photos/b.png", "--outputs", "out.npz").status == 0
    with np.load(tmp_path / "out.npz") as stored:
        assert stored["y"].shape == (1, 3, 1, 2)
    done = tool(*run, "photos/c.png")
    assert done.status == 1 and "no such file" in done.stderr
    (tmp_path / "wrong.png").write_text("no image")
    done = tool(*run, "wrong.png")
    assert done.status == 1 and "wrong.png: error: not a readable image" in done.stderr
    np.savez(tmp_path / "x.npz", x=np.zeros((1, 3, 1, 2), np.float32))
    done = tool(*run, "x.npz", "--image-scale", "51")
    assert done.status == 2 and "apply to a folder or an image" in done.stderr


def test_decisions(tool: Tool, folder: Path) -> None:
    """`--decode` computes them in the program, and its interface has the labels."""
    run = ("vector.mlir", "--decode", "top,count=2,labels=classes.txt")
    expected = ["y_classes [1, 2]", "  sample 0: bee, dog", "  sample 1: fox, bee"]
    for target in ("interp", "c"):
        done = tool("ceras-run", *run, "--inputs", "vector.npz", "--target", target)
        assert done.stdout.splitlines()[:3] == expected, done.stderr
    done = tool("ceras-verify", *run, "--inputs", "vector.npz", "--targets", "c")
    assert done.status == 0 and "c: machine" in done.stdout, done.stderr
    assert tool("ceras-compile", *run, "-o", "net", "--target", "c").status == 0
    header = (folder / "net/model.h").read_text()
    assert '_Y_CLASSES_LABELS {"ant", "bee", "cat", "dog", "elk", "fox"}' in header


def test_boxes_of_decisions(tool: Tool, tmp_path: Path) -> None:
    """Boxes are printed in the coordinates of the network."""
    (tmp_path / "net.mlir").write_text(network("1x8x6"))
    rows = np.zeros((8, 6), np.float32)
    rows[:3] = [[8, 8, 4, 2, 0.5, 0], [8, 8, 4, 2, 0.75, 0], [1, 1, 2, 2, 0, 0.5]]
    np.savez(tmp_path / "in.npz", x=np.stack([rows[None], 0 * rows[None]]))
    boxes = "boxes,count=4,least=0.1,scores=y"
    done = tool("ceras-run", "net.mlir", "--inputs", "in.npz", "--decode", boxes)
    assert done.stdout.splitlines() == [
        "objects: left, top, right, bottom in coordinates of the network",
        "  sample 0: 2 objects",
        "    0 (0.75): 6, 7, 10, 9",
        "    1 (0.5): 0, 0, 2, 2",
        "  sample 1: 0 objects",
    ], done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tpo", "--decode tpo: expected top, ctc, boxes, and options after commas"),
        ("top,3", "--decode top,3: expected OPTION=VALUE after commas, got '3'"),
        ("top,cuont=3", "--decode top has no option 'cuont'; did you mean 'count'?"),
        ("top,count=x", "option 'count' of --decode top must be int, got 'x'"),
    ],
)
def test_mistakes_in_decisions(tool: Tool, folder: Path, text: str, message: str) -> None:
    done = tool("ceras-run", "vector.mlir", "--inputs", "vector.npz", "--decode", text)
    assert done.status == 2 and message in done.stderr
