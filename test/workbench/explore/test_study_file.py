"""Check that invalid studies are rejected before a point runs, with the remedy."""

import multiprocessing
import re
import resource
import signal
from pathlib import Path

import numpy as np
import pytest
from driver_networks import MIXING

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import CacheError
from ceras_ir.workbench.evaluation import CacheAt
from ceras_ir.workbench.explore.known_figures import check_figures
from ceras_ir.workbench.explore.study_file import load_study
from ceras_ir.workbench.explore.tool import main
from ceras_ir.workbench.explore.trial import Work, run_trial

STUDY = """
[models.mix]
file = "n.mlir"
calibrate = "a.npz"
[options]
quantize = "int8"
[targets.c]
board = ["pico", "due"]
[objectives]
minimize = ["flash_bytes"]
"""


@pytest.fixture
def study(tmp_path: Path) -> Path:
    (tmp_path / "n.mlir").write_text(MIXING)
    images = np.random.default_rng(4).uniform(-1, 1, (4, 4, 4, 2))
    np.savez(tmp_path / "a.npz", image=images.astype(np.float32))
    return tmp_path / "s.toml"


@pytest.mark.parametrize(
    ("old", "new", "status", "said"),
    [
        ("quantize =", "quantise =", 1, "did you mean '--quantize'?"),
        ('"int8"', '"int9"', 1, "invalid choice: 'int9'"),
        ("quantize =", 'prune = ["sparsty=0.3"]\nquantize =', 1, "did you mean 'sparsity'?"),
        ("[options]", "[optoins]", 1, "unknown entry 'optoins'; did you mean 'options'?"),
        ('"pico"', '"pica"', 1, "pica"),
        (
            "quantize =",
            'load_pass_plugin = "p.py"\nquantize =',
            1,
            "--load-pass-plugin has no effect",
        ),
        ("quantize", "save_temps = true\nquantize", 1, "--save-temps has no effect in a study"),
        ("quantize =", 'set = "x=1"\nquantize =', 1, "--set has no effect in a study: remove it"),
        ("[targets.c]", "[targets.cc]", 1, "did you mean 'c'?"),
        ('file = "n.mlir"', 'file = "m.mlir"', 1, "no such file: "),
        ("minimize", "minimise", 1, "unknown entry 'minimise'; did you mean 'minimize'?"),
        ("minimize = ", "maximize = []\nminimize = [] #", 1, "has no objective"),
        ("[models.mix]", "[search]\nsampler = 'tpa'\n[models.mix]", 1, "did you mean 'tpe'?"),
        ("[models.mix]", "[search]\nsampler = 'tpe'\n[models.mix]", 1, "needs search.trials"),
        ("[models.mix]", "[models.mix", 1, "s.toml"),
        (
            "flash_bytes",
            "flush_bytes",
            1,
            "did you mean 'flash_bytes'? (known: macs, ",
        ),
        ("flash_bytes", "vta_cycles", 1, "objective: no figure is called 'vta_cycles'"),
        ("flash_bytes", "top_1", 1, "objective: 'top_1' needs inputs in [models.NAME] (known: "),
        (
            '["flash_bytes"]',
            "['flash']\nconstraints = ['model == \"mix\"', 'latenzy < 9']",
            1,
            "constraint 'latenzy < 9': no figure is called 'latenzy'; did you mean 'latency_us'?",
        ),
        (
            '["flash_bytes"]',
            "['euros']\n[figures.euros]\nboard = { pica = 4, due = 5 }",
            1,
            "[figures.euros]: no number for board pico; did you mean 'pica'?",
        ),
        (
            '["flash_bytes"]',
            "['ms']\n[figures]\nms = 'latncy_us / 1000'",
            1,
            "[figures] ms 'latncy_us / 1000': no figure is called 'latncy_us'; did you mean",
        ),
    ],
)
def test_refused(
    study: Path, old: str, new: str, status: int, said: str, capsys: pytest.CaptureFixture[str]
):
    assert old in STUDY
    study.write_text(STUDY.replace(old, new))
    assert main([str(study)]) == status
    err = capsys.readouterr().err
    assert said in err and "Traceback" not in err
    assert not study.with_suffix(".study").exists()


@pytest.mark.parametrize(
    ("more", "figure"),
    [
        ('inputs = "a.npz"', "signal_to_noise_db"),
        ('inputs = "a.npz"', "float_top_1"),
        ('inputs = "a.npz"', "logits_mean_iou"),
        ('inputs = "a.npz"', "iou_of_class_3"),
        ('inputs = "a.npz"\nmetric = "score.py:score"', "brightness"),
        ("", "modelled_work"),
        ("", "latency"),
    ],
)
def test_figures_that_a_trial_can_have(study: Path, more: str, figure: str):
    study.write_text(
        STUDY.replace("[options]", f"{more}\n[options]").replace("flash_bytes", figure)
    )
    check_figures(load_study(str(study), study.parent / "boards"), str(study))


@pytest.mark.parametrize("euros", ["45", "4"])
def test_a_study_whose_points_all_fail(study: Path, euros: str, capsys: pytest.CaptureFixture[str]):
    """Also if a board is ruled out before the missing objective is evaluated."""
    pytest.importorskip("optuna", reason="studies are kept by Optuna")
    text = STUDY.replace("flash_bytes", "launches") + 'constraints = ["euros > 5"]\n'
    study.write_text(text + f"[figures.euros]\nboard = {{ pico = {euros}, due = 45 }}\n")
    assert main([str(study), "--jobs", "1", "--cache", str(study.parent / "cache")]) == 1
    said = capsys.readouterr()
    assert "study 's': error: objective: no figure is called 'launches'" in said.out
    assert "s.toml: error: all points that were not ruled out have failed" in said.err


def test_a_study_whose_points_are_all_ruled_out(study: Path, capsys: pytest.CaptureFixture[str]):
    pytest.importorskip("optuna", reason="studies are kept by Optuna")
    study.write_text(STUDY + 'constraints = ["flash < 10"]\n')
    assert main([str(study), "--jobs", "1", "--cache", str(study.parent / "cache")]) == 1
    said = capsys.readouterr()
    assert "2 ruled out: not flash < 10" in said.out
    assert "s.toml: error: the constraints rule out all points" in said.err


def _with_a_full_disk(study: str) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
    folder = Path(study).parent
    work = Work(
        load_study(study, folder / "boards"),
        CacheAt(str(folder / "cache"), 1 << 20),
        {"model": "mix", "target": "c", "quantize": "int8", "c.board": "pico"},
    )
    with pytest.raises(CacheError, match="cache cannot write: File too large; free some space"):
        run_trial(work)


def test_a_full_disk_is_no_failed_trial(study: Path):
    """The study stops with a message; no point is stored as failed, and all results are kept."""
    study.write_text(STUDY)
    process = multiprocessing.get_context("fork").Process(
        target=_with_a_full_disk, args=(str(study),)
    )
    process.start()
    process.join()
    assert process.exitcode == 0


CAMERA = f"""
[models.digits]
file = "{Path(__file__).parents[3] / "examples/digits/digits.onnx"}"
[options]
quantize = "none"
input_image = ["rgb565_be", "yuyv"]
frame_size = "12x16"
[targets.c]
[objectives]
minimize = ["flash"]
"""


def test_a_choice_can_need_an_option_of_another_axis(tmp_path: Path) -> None:
    """Formats of a camera need a size, which all points have, or which is a choice too."""
    path = tmp_path / "s.toml"
    for size in ('"12x16"', '["12x16", "24x32"]'):
        path.write_text(CAMERA.replace('"12x16"', size))
        axes = {axis.name: len(axis.choices) for axis in load_study(str(path), tmp_path).axes}
        assert axes["input_image"] == 2 and axes["frame_size"] == 1 + size.startswith("[")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('frame_size = "12x16"', "", "--input-image rgb565_be needs --frame-size"),
        ('["rgb565_be", "yuyv"]', '"nhwc"', "choice '12x16' of 'frame_size' for target c: "),
        ('"yuyv"', '"yuv"', "choice 'yuv' of 'input_image' for target c: "),
    ],
)
def test_a_choice_that_no_other_axis_makes_valid_is_refused(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    path = tmp_path / "s.toml"
    path.write_text(CAMERA.replace(old, new))
    with pytest.raises(InputError, match=re.escape(message)):
        load_study(str(path), tmp_path)
