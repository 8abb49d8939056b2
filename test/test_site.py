"""Check the documentation as a site: no warning, no other server, search without a server."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LOADED = re.compile(r"<(?:script|img|iframe|link)\b[^>]*(?:src|href)=.(?:https?:)?//[^>]*>")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("material", reason="needs the extra 'docs'")
    folder = tmp_path_factory.mktemp("site") / "site"
    done = subprocess.run(
        [sys.executable, ROOT / "docs/tools/build_site.py", "-o", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_every_page_is_there_and_asks_no_other_server_for_anything(site: Path):
    for page in (ROOT / "docs").glob("*.md"):
        built = site / "docs" / f"{page.stem}.html"
        assert built.exists() == (page.name != "package-index.md"), page.name
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text(encoding="utf-8")), page


@pytest.mark.slow
def test_the_gallery_has_a_report_for_each_command(site: Path):
    from gallery import REPORTS

    page = (site / "docs" / "gallery.html").read_text(encoding="utf-8")
    for report in REPORTS:
        made = (site / "docs" / "gallery" / f"{report.name}.html").read_text(encoding="utf-8")
        assert f'href="gallery/{report.name}.html"' in page
        assert report.is_difference or "digits.onnx" in made
    assert (site / "docs" / "gallery" / "vta.html").read_text(encoding="utf-8").count("<svg") > 2


@pytest.mark.slow
def test_the_search_works_without_a_server(site: Path, tmp_path: Path):
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        pytest.skip("needs chromium")
    options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}"]
    options += ["--host-resolver-rules=MAP * ~NOTFOUND", "--virtual-time-budget=8000"]
    done = subprocess.run(
        [browser, *options, "--dump-dom", f"{(site / 'index.html').as_uri()}?q=requantization"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert re.search(r"\d+ matching documents", done.stdout), done.stderr
    assert "docs/quantized-import.html" in done.stdout


def test_lists_and_fences_are_adapted_outside_of_code():
    from build_site import python_markdown

    text = "Text:\n- a\n  1. b\n\n  more\n```console exit=1\nx\n- y\n```\n"
    adapted = "Text:\n\n- a\n    1. b\n\n    more\n```console\nx\n- y\n```\n"
    assert python_markdown(text) == adapted
