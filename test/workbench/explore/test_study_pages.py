"""Test the pages of a study: axes, links, escapes, and the appearance in a browser."""

import re
from pathlib import Path

import pytest
from workbench.browser import APPEARANCE, CHROMIUM, DARK, NO_CHROMIUM, probed

from ceras_ir.support.diagnostics import UsageError
from ceras_ir.support.extras import install_command
from ceras_ir.workbench.explore.page import axis_range, point_page, study_page
from ceras_ir.workbench.explore.storage import Record
from ceras_ir.workbench.explore.study_file import Objective, Study
from ceras_ir.workbench.explore.trial import DONE, FAILED

STUDY = Study(
    "a <study>", {}, ("c",), (), (Objective("top_1", True), Objective("flash_bytes", False))
)


def records() -> list[Record]:
    found = [
        Record(
            f"{i:064x}",
            DONE,
            {"board": f"a_board_with_a_long_name_{i % 7}", "precision": ("int8", "float")[i % 2]}
            | {f"axis{k}": str(i % k) for k in range(2, 12)},
            {"top_1": 1 - i / 1000, "flash_bytes": 1e6 / (i + 1)},
        )
        for i in range(40)
    ]
    return [*found, Record("f" * 64, FAILED, {"board": "uno"}, {}, "no <space> is left")]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.98, 1.0), (0.979, 1.0)),
        ((1.0, 1.0), (0.95, 1.0)),
        ((0.0, 0.5), (0.0, 0.525)),
        ((10.0, 30.0), (9.0, 31.0)),
        ((-10.0, 30.0), (-12.0, 32.0)),
        ((0.0, 0.0), (0.0, 0.05)),
    ],
)
def test_an_axis_ends_at_1(values: tuple[float, float], expected: tuple[float, float]):
    assert axis_range(values) == pytest.approx(expected)


def test_a_point_has_a_page():
    record = Record("0" * 64, FAILED, {"board": "<b>"}, {"top_1": 0.25, "macs": 12345.0}, "<fails>")
    page = point_page(record, "layer  <op>")
    assert "&lt;b&gt;" in page and "&lt;fails&gt;" in page and "layer  &lt;op&gt;" in page
    assert "12,345" in page and "0.25" in page and '<a href="../../index.html">' in page


def test_without_plotly_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "plotly.graph_objects", None)
    with pytest.raises(UsageError, match=re.escape(install_command("explore"))):
        study_page(STUDY, records())


def test_a_study_has_a_page():
    pytest.importorskip("plotly", reason="the page has plots of Plotly")
    page = study_page(STUDY, records())
    assert "a &lt;study&gt;" in page and "failed: no &lt;space&gt; is left" in page
    assert f'<a href="points/{"0" * 16}/report.html">1</a>' in page
    assert "41 points: 40 measured" in page


def test_an_equal_share_of_all_points_is_at_the_end_of_its_axis():
    """All plots of a share end at 1, and so does the scale of colors."""
    pytest.importorskip("plotly", reason="the page has plots of Plotly")
    points = [
        Record(f"{i:064x}", DONE, {"board": str(i)}, {"top_1": 1.0, "flash_bytes": 9.0 + i})
        for i in range(3)
    ]
    page = study_page(STUDY, points)
    assert '"range":[0.95,1.0]' in page and '"range":[9.0,11.0]' in page
    assert '"cmin":0.95' in page and '"cmax":1.0' in page


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason=NO_CHROMIUM)
@pytest.mark.parametrize("options", [(), (DARK,)])
@pytest.mark.parametrize("width", [800, 1300])
def test_text_has_contrast_and_nothing_overflows(
    tmp_path: Path, width: int, options: tuple[str, ...]
):
    pytest.importorskip("plotly", reason="the page has plots of Plotly")
    pages = {"study": study_page(STUDY, records()), "point": point_page(records()[-1], "x" * 400)}
    for name, text in pages.items():
        page = tmp_path / f"{name}.html"
        page.write_text(text, encoding="utf-8")
        found = probed(tmp_path, page, width, APPEARANCE, *options)
        assert float(found["contrast"]) > 3
        assert int(found["overflow"]) <= 0
        assert found["paper"] == ("rgb(12, 13, 15)" if options else "rgb(255, 255, 255)")
