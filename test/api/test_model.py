"""
Check the Python API: steps return the results of commands, errors are exceptions, and nothing is
printed.
"""

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from driver.test_trying import BOARD, NETWORK
from numpy.typing import NDArray

import ceras_ir as ceras
from ceras_ir.driver import compile as compile_tool
from ceras_ir.driver.opt import tool as opt_tool

DIGITS = Path(__file__).parents[2] / "examples/digits"
TEXT = """
func.func @main(%x: tensor<1x4x4x2xf32> {graph.name = "image"})
    -> (tensor<1x3xf32> {graph.name = "scores"}) {
  %w = graph.constant dense<[[[[1.0, 0.01]]], [[[-0.5, 0.013]]], [[[0.25, -0.004]]]]>
      : tensor<3x1x1x2xf32> : tensor<3x1x1x2xf32>
  %c = graph.conv2d %x, %w
      : (tensor<1x4x4x2xf32>, tensor<3x1x1x2xf32>) -> tensor<1x4x4x3xf32> loc("mix")
  %y = graph.unary <relu> %c : tensor<1x4x4x3xf32> loc("clamp")
  %z = graph.binary add %y, %y : (tensor<1x4x4x3xf32>, tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xf32>
      loc("twice")
  %p = graph.pool2d average %z {kernel = array<i64: 4, 4>}
      : (tensor<1x4x4x3xf32>) -> tensor<1x1x1x3xf32> loc("mean")
  %r = graph.reshape %p : (tensor<1x1x1x3xf32>) -> tensor<1x3xf32>
  func.return %r : tensor<1x3xf32>
}
"""
SAMPLES: NDArray[np.float32] = (
    np.random.default_rng(4).uniform(-1, 1, (40, 4, 4, 2)).astype(np.float32)
)


@pytest.fixture(autouse=True)
def silent(capfd: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Check that nothing is printed."""
    yield
    assert capfd.readouterr() == ("", "")


@pytest.fixture
def model() -> ceras.Model:
    return ceras.Model.parse(TEXT, "mix")


@pytest.mark.slow
def test_importing_is_cheap_and_lists_the_names() -> None:
    code = (
        "import sys, ceras_ir; assert set(ceras_ir.__all__) <= set(dir(ceras_ir)); "
        "assert not {'numpy', 'xdsl', 'onnx'} & set(sys.modules); ceras_ir.load; "
        "assert not {'onnx', 'onnxruntime'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_is_there() -> None:
    from ceras_ir import api

    assert api.__all__ == ceras.__all__
    assert all(getattr(ceras, name) is getattr(api, name) for name in ceras.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'lode'"):
        _ = ceras.lode  # pyright: ignore


def test_one_sample_and_many(model: ceras.Model) -> None:
    many = model.run(SAMPLES)["scores"]
    assert many.shape == (40, 3)
    for given in (SAMPLES[3], SAMPLES[3:4], {"image": SAMPLES[3:4]}):
        assert np.array_equal(model.run(given)["scores"], many[3:4])
    batches = (SAMPLES[i : i + 8] for i in range(0, 40, 8))
    assert np.array_equal(model.run(batches)["scores"], many)
    singles = [{"image": sample} for sample in SAMPLES]
    assert np.array_equal(model.run(singles)["scores"], many)


@pytest.mark.slow
def test_calibration_may_be_anything(model: ceras.Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "all.npz", image=SAMPLES)
    np.savez(tmp_path / "a.npz", image=SAMPLES[:20])
    np.savez(tmp_path / "b.npz", image=SAMPLES[20:])
    texts = {
        str(model.quantize(data, target="c"))
        for data in (
            SAMPLES,
            {"image": SAMPLES},
            (sample for sample in SAMPLES),
            tmp_path / "all.npz",
            [tmp_path / "a.npz", tmp_path / "b.npz"],
        )
    }
    assert len(texts) == 1
    assert str(model.quantize(SAMPLES[:1].repeat(32, 0), target="c")) not in texts


def test_a_folder_of_images(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = np.random.default_rng(0).integers(0, 256, (33, 8, 8), np.uint8)
    for i, each in enumerate(pixels):
        image.fromarray(each).save(tmp_path / f"{i:02}.png")
    network = ceras.load(DIGITS / "digits.onnx")
    options = ceras.ImageOptions(scale=16.0, mean=(1.5,))
    values = (pixels.astype(np.float32) / np.float32(16) - np.float32(1.5))[:, None]
    assert np.array_equal(
        network.run(tmp_path, images=options)["probabilities"],
        network.run(values)["probabilities"],
    )


def test_remarks_of_passes_are_warnings(model: ceras.Model) -> None:
    remark = "only 8 calibration samples"
    with pytest.warns(ceras.CerasWarning, match=remark) as caught:
        model.quantize(SAMPLES[:8])
    assert [one.filename for one in caught if remark in str(one.message)] == [__file__]


def test_notes_of_passes_are_logged(
    model: ceras.Model, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """A decision of a pass is no warning, and is printed only if the user requests it."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ceras.CerasWarning)
        with caplog.at_level("INFO", logger="ceras_ir"):
            model.quantize(SAMPLES, target="c", silu="table")
    (record,) = caplog.records
    assert (record.name, record.levelname) == ("ceras_ir", "INFO")
    assert record.getMessage().startswith("choose-precision: note: 16 bits for ")
    caplog.clear()
    model.quantize(SAMPLES, target="c", silu="table")
    assert not caplog.records and capfd.readouterr() == ("", "")


def test_trials_of_options_are_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    board = tmp_path / "board.toml"
    board.write_text(BOARD.format(sram=4700))
    with caplog.at_level("INFO", logger="ceras_ir"), pytest.raises(ceras.UnsupportedError):
        ceras.Model.parse(NETWORK, "net").compile("arduino", board=str(board))
    assert any("note: tried and too large: " in message for message in caplog.messages)
    assert not [one for one in recwarn if "note:" in str(one.message)]


@pytest.mark.parametrize("given", [4, "4", [4], ["8", "4:*"], ("4:*",)])
def test_weights_of_few_bits(model: ceras.Model, given: object, tmp_path: Path) -> None:
    quantized = model.quantize(SAMPLES, target="c", weight_bits=given)
    assert "!quant.uniform<i4:f32" in str(quantized)
    with pytest.raises(ceras.UsageError, match="expected 2 to 8 bits"):
        model.quantize(SAMPLES, target="c", weight_bits=9)


def test_the_recommended_calls_print_no_warning(model: ceras.Model, tmp_path: Path) -> None:
    """`compile` and `verify` do not report the options that `quantize` applied."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", ceras.CerasWarning)
        quantized = model.quantize(SAMPLES, target="c", observer="minmax", budget=0)
        quantized.compile("c").save(tmp_path / "out")
        assert ceras.verify(quantized, SAMPLES[:2], targets=["c"])


def test_models_do_not_change(model: ceras.Model) -> None:
    before = str(model)
    quantized = model.fuse().quantize(SAMPLES, target="c")
    assert quantized.is_quantized and not model.is_quantized
    assert (before, "!quant.uniform<i8" in str(quantized)) == (str(model), True)
    copy = model.module
    main = next(iter(copy.body.block.ops))
    main.detach()
    assert str(model) == before


@pytest.mark.slow
def test_passes_by_text_and_as_objects(model: ceras.Model) -> None:
    from ceras_ir.transforms.graph.fuse import FusePass

    assert str(model.apply("fuse,cse")) == str(model.apply(FusePass(), "cse")) != str(model)
    assert str(model.apply(["fuse", "cse"])) == str(model.fuse().apply("cse"))
    compiled = model.quantize(SAMPLES).compile("c", at={"quantized graph": "canonicalize"})
    assert np.array_equal(
        compiled.run(SAMPLES)["scores"], model.quantize(SAMPLES).run(SAMPLES)["scores"]
    )


def test_text_that_is_saved_is_the_same_model(model: ceras.Model, tmp_path: Path) -> None:
    quantized = model.quantize(SAMPLES)
    quantized.save(tmp_path / "q.mlir")
    again = ceras.load(tmp_path / "q.mlir")
    assert str(again) == str(quantized)
    assert [layer.name for layer in again.layers] == [layer.name for layer in quantized.layers]


@pytest.mark.slow
def test_files_are_those_of_the_command(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    network = ceras.load(DIGITS / "digits.onnx")
    data = DIGITS / "digits_calibration.npz"
    arguments = [str(DIGITS / "digits.onnx"), "--calibrate", str(data), "--recipe", "none"]
    assert compile_tool.main([*arguments, "--target", "c", "-o", str(tmp_path / "command")]) == 0
    printed = capfd.readouterr().out
    quantized = network.quantize(data, target="c", recipe=["none"])
    compiled = quantized.compile("c")
    assert compiled.save(tmp_path / "api") == tmp_path / "api"
    names = sorted(p.name for p in (tmp_path / "command").iterdir())
    assert compiled.files == names == sorted(p.name for p in (tmp_path / "api").iterdir())
    for name in names:
        assert (tmp_path / "api" / name).read_bytes() == compiled.read(name)
        if name not in ("report.json", "manifest.json"):
            assert compiled.read(name) == (tmp_path / "command" / name).read_bytes(), name
    command = json.loads((tmp_path / "command/report.json").read_text())
    assert "ceras-compile" in command.pop("provenance")["command"]
    assert compiled.report == command and compiled.totals == command["totals"]
    assert f"{compiled}\n" == printed
    again = ceras.open_compiled(tmp_path / "api")
    images = np.load(DIGITS / "digits_test.npz")["image"][:5]
    expected = quantized.run(images)["probabilities"]
    for each in (compiled, again):
        assert np.array_equal(each.run(images)["probabilities"], expected)


@pytest.mark.slow
def test_quantization_is_that_of_the_command(
    tmp_path: Path, model: ceras.Model, capfd: pytest.CaptureFixture[str]
) -> None:
    np.savez(tmp_path / "a.npz", image=SAMPLES)
    model.save(tmp_path / "n.mlir")
    option = f"--quantize=calibration={tmp_path / 'a.npz'} target=c silu=table"
    out = tmp_path / "q.mlir"
    assert opt_tool.main([str(tmp_path / "n.mlir"), "--fuse", option, "-o", str(out)]) == 0
    assert "choose-precision: note" in capfd.readouterr().err
    quantized = model.quantize(SAMPLES, target="c", silu="table")
    assert str(ceras.load(out)) == str(quantized)


def test_layers_that_were_chosen_stay_chosen(model: ceras.Model) -> None:
    """Changes of a quantized network do not select its layers again."""
    quantized = model.quantize(SAMPLES, target="c", int16=["image"])
    assert "<i16:" in str(quantized)
    (found,) = quantized.compile("c").run(SAMPLES[:2]).values()
    (expected,) = quantized.run(SAMPLES[:2]).values()
    assert np.array_equal(found, expected)
    assert ceras.verify(quantized, SAMPLES[:2], targets=["c"])


def test_verification(model: ceras.Model) -> None:
    found = ceras.verify(model.quantize(SAMPLES, target="c"), SAMPLES[:2], targets=["c"])
    assert found and found.ok and found.samples == 2
    assert [v.level for v in found.verdicts][-1] == "c: machine"
    assert "c: machine                       exact" in str(found)
    assert "all levels agree" in found._repr_html_()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.needs("workbench")
@pytest.mark.slow
def test_comparison(model: ceras.Model, tmp_path: Path) -> None:
    labels = np.zeros(8, np.int64)
    found = ceras.compare(
        model,
        inputs=SAMPLES[:8],
        calibration=SAMPLES[8:],
        labels=labels,
        metric=lambda outputs, known: {"count": float(known is not None and len(known))},
        recipe=["none"],
        against=["round-weights"],
    )
    assert [v.name for v in found.variants] == ["recipe none", "recipe round-weights"]
    assert {layer.name for layer in found.layers} >= {"mix", "mean"} and found.decibels > 20
    assert any(m.name == "count" and m.quantized == 8 for m in found.metrics)
    assert "8 sample(s), recipe none against float" in str(found)
    assert "mix" in found._repr_html_()  # pyright: ignore[reportPrivateUsage]
    found.save(tmp_path / "page.html")
    assert (tmp_path / "page.html").read_text() == found.page()
    other = ceras.compare(model, model.quantize(SAMPLES[8:]), inputs=SAMPLES[:8])
    assert other.variants[0].reference == "mix (float)" and other.decibels > 20


@pytest.mark.needs("workbench")
def test_notebooks_show_models(model: ceras.Model) -> None:
    shown = model._repr_html_()  # pyright: ignore[reportPrivateUsage]
    picture = ElementTree.fromstring(shown[shown.index("<svg") : shown.index("</svg>") + 6])
    texts = [each.text for each in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert texts[:2] == ["input", "image"] and texts[-3:-1] == ["output", "scores"]
    assert texts[texts.index("mix") - 1] == "conv2d"
    # The texts are operations without the constant, inputs, outputs, and the edges of the chain.
    assert len(texts) == 3 * 7
    assert len(list(picture.iter("{http://www.w3.org/2000/svg}path"))) == 6
    assert "dense_resource" not in shown and "func.func @main" in shown
    quantized = model.quantize(SAMPLES, target="c")
    assert "!quant.uniform&lt;i8:f32" in quantized._repr_html_()  # pyright: ignore[reportPrivateUsage]
    compiled = quantized.compile("c")._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert "memory plan" in compiled and "bytes alive" in compiled and "macs" in compiled
    assert repr(model) == (
        "<ceras_ir.Model 'mix', float: 5 layers, image float32[1, 4, 4, 2] -> scores float32[1, 3]>"
    )


@pytest.mark.needs("workbench")
def test_shortcuts_are_arcs() -> None:
    text = TEXT.replace("add %y, %y", "add %y, %c")
    picture = ceras.Model.parse(text)._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert picture.count('class="arc"') == 1


def test_large_constants_are_elided() -> None:
    network = ceras.load(DIGITS / "digits.onnx")
    assert "dense_resource<__elided__>" in str(network)
    shown = network._repr_html_()  # pyright: ignore[reportPrivateUsage]
    assert len(shown) < 40_000 and "stem/conv/Conv" in shown


def wrong(model: ceras.Model, what: str) -> object:
    """Make a mistake that is rejected."""
    match what:
        case "no file":
            return ceras.load("nowhere.onnx")
        case "no model":
            return ceras.load(__file__)
        case "text":
            return ceras.Model.parse("func.func @main(", "broken")
        case "no main":
            return ceras.Model.parse("builtin.module {}", "empty")
        case "input":
            return model.run({"image": SAMPLES, "more": SAMPLES})
        case "shape":
            return model.run(SAMPLES[:, :3])
        case "number":
            return model.run(3)  # pyright: ignore[reportArgumentType]
        case "nothing":
            return model.quantize(iter(()))
        case "no data":
            return model.quantize("nowhere.npz")
        case "not finite":
            return model.quantize(np.full_like(SAMPLES, np.nan))
        case "images":
            return model.quantize(SAMPLES, images=ceras.ImageOptions())
        case "target":
            return model.compile("d")
        case "option":
            return model.compile("c", weight="file")
        case "value":
            return model.compile("c", weights="fil")
        case "board":
            return model.compile("c", board="nowhere")
        case "recipe":
            return model.quantize(SAMPLES, recipe=["round-wieghts"])
        case "pass":
            return model.apply("fuze")
        case "level":
            return model.compile("c", at={"fuzed graph": "cse"})
        case "targets":
            return ceras.verify(model, SAMPLES, targets=["interp"])
        case "samples":
            return ceras.verify(model, SAMPLES, samples=0, targets=["c"])
        case "metric":
            return ceras.compare(model, inputs=SAMPLES, calibration=SAMPLES, metric="topq")
        case "labels":
            return ceras.compare(
                model, inputs=SAMPLES, calibration=SAMPLES, labels=np.zeros(3, np.int64)
            )
        case "comparison":
            return ceras.compare(model, inputs=SAMPLES, obsever="mse")
        case _:
            raise AssertionError(what)


@pytest.mark.parametrize(
    ("what", "kind", "text"),
    [
        ("no file", ceras.InputError, "No such file"),
        ("no model", ceras.InputError, "expected a model ending in .onnx"),
        ("text", ceras.InputError, r"\nbroken:1:17: error: Expected argument"),
        ("no main", ceras.InputError, "no function @main"),
        ("input", ceras.InputError, "no input is named 'more'"),
        ("shape", ceras.InputError, r"has shape \[40, 3, 4, 2\], expected \[N, 4, 4, 2\]"),
        ("number", ceras.UsageError, "inputs: expected a path, an array"),
        ("nothing", ceras.InputError, "no samples"),
        ("no data", ceras.InputError, "no such file or folder"),
        ("not finite", ceras.InputError, "NaN or infinite"),
        ("images", ceras.UsageError, "image options apply only to images"),
        ("target", ceras.UsageError, "unknown target 'd'"),
        ("option", ceras.UsageError, "no option 'weight'; did you mean 'weights'"),
        ("value", ceras.UsageError, "must be source|file|incbin, got 'fil'"),
        ("board", ceras.InputError, "nowhere"),
        ("recipe", ceras.UsageError, "round-wieghts"),
        ("pass", ceras.UsageError, "unknown pass 'fuze'; did you mean 'fuse'"),
        ("level", ceras.UsageError, "no level 'fuzed graph'"),
        ("targets", ceras.UsageError, "is the reference"),
        ("samples", ceras.UsageError, "must be at least 1"),
        pytest.param("metric", ceras.UsageError, "topq", marks=pytest.mark.needs("workbench")),
        pytest.param(
            "labels",
            ceras.InputError,
            "3 labels for 40 samples",
            marks=pytest.mark.needs("workbench"),
        ),
        pytest.param(
            "comparison",
            ceras.UsageError,
            "no option 'obsever'; did you mean 'observer'",
            marks=pytest.mark.needs("workbench"),
        ),
    ],
)
def test_what_is_wrong_is_an_exception(
    model: ceras.Model, what: str, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as caught:
        wrong(model, what)
    assert isinstance(caught.value, ceras.InputError)
    assert caught.value.file or kind is ceras.UsageError


def test_what_a_target_does_not_take_is_unsupported(model: ceras.Model) -> None:
    assert issubclass(ceras.UnsupportedError, ceras.InputError)
    with pytest.raises(ceras.UnsupportedError, match="unsupported") as caught:
        ceras.Model.parse(
            TEXT.replace("4x4x", "100x100x").replace("4, 4", "100, 100"), "large"
        ).compile("arduino", board="uno_r4_wifi")
    assert caught.value.file == "large"


def test_folders_of_others_stay(model: ceras.Model, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    compiled = model.compile("c")
    with pytest.raises(ceras.InputError, match="--force"):
        compiled.save(tmp_path)
    compiled.save(tmp_path, force=True)
    assert (tmp_path / "mine.txt").read_text() == "mine" and (tmp_path / "model.c").exists()
    with pytest.raises(ceras.InputError, match="no such folder"):
        ceras.open_compiled(tmp_path / "nowhere")


def test_choices_are_checked(model: ceras.Model) -> None:
    """An invalid choice must not become the default, or crash a pass."""
    for option in ("silu", "rows", "observer", "io"):
        with pytest.raises(ceras.UsageError, match=f"{option} must be one of .*, got 'much'"):
            getattr(model, "quantize")(**{option: "much"})  # noqa: B009
    with pytest.raises(ceras.UsageError, match="budget must be >= 0, got -1"):
        model.quantize(budget=-1)
    with pytest.raises(ceras.UsageError, match="expected pipelines as text, or passes, got int"):
        getattr(model, "apply")(3)  # noqa: B009


def test_errors_name_what_the_caller_gave(model: ceras.Model, tmp_path: Path) -> None:
    """The error names no temporary file, and the note is the message of a command."""
    shape = model.inputs[0].shape
    with pytest.raises(ceras.InputError) as caught:
        model.quantize(np.full((4, *shape[1:]), np.nan, np.float32))
    assert caught.value.file == "calibration"
    with pytest.raises(ceras.InputError) as caught:
        ceras.load(tmp_path / "nowhere.mlir")
    (note,) = caught.value.__notes__
    assert note.startswith(f"{tmp_path / 'nowhere.mlir'}: error: No such file or directory; ")


@pytest.mark.slow
def test_what_does_not_fit_is_told_what_does(tmp_path: Path) -> None:
    """The trials equal the trials of `ceras-compile`, and also start before quantization."""
    board = tmp_path / "board.toml"
    board.write_text(BOARD.format(sram=7000))
    model = ceras.Model.parse(NETWORK, "net")
    with pytest.raises(ceras.UnsupportedError, match=r"\(1\) --quantize int8: a board: flash"):
        model.compile("arduino", board=str(board))
    board.write_text(BOARD.format(sram=4700))
    with pytest.warns(ceras.CerasWarning, match="synthetic"):
        quantized = model.quantize(target="arduino", board=str(board))
    with pytest.raises(ceras.UnsupportedError, match=r"\(1\) --io int8: a board: flash"):
        quantized.compile("arduino", board=str(board))
