"""Check that the command to install an optional part fits the current installation."""

import json
import re
import shlex
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from ceras_ir.support import extras
from ceras_ir.support.extras import IN_CLONE, install_command


class Installed:
    """A stub for the metadata of an installed distribution."""

    def __init__(self, record: object):
        self.record = record

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self.record is None else json.dumps(self.record)


def command(monkeypatch: pytest.MonkeyPatch, record: object) -> str:
    def installed(name: str) -> Installed:
        assert name == "ceras-ir"
        return Installed(record)

    monkeypatch.setattr(extras, "distribution", installed)
    return install_command("editor")


def test_from_an_index(monkeypatch: pytest.MonkeyPatch):
    assert command(monkeypatch, None) == "pip install 'ceras-ir[editor]'"


def test_from_a_clone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    clone = tmp_path / "a clone"
    clone.mkdir()
    copied: object = {"url": clone.as_uri(), "dir_info": {}}
    assert shlex.split(command(monkeypatch, copied)) == ["pip", "install", f"{clone}[editor]"]
    editable: object = {"url": clone.as_uri(), "dir_info": {"editable": True}}
    expected = ["pip", "install", "-e", f"{clone}[editor]"]
    assert shlex.split(command(monkeypatch, editable)) == expected


def test_from_an_archive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    wheel = tmp_path / "ceras_ir-0.2.0-py3-none-any.whl"
    wheel.touch()
    record: object = {"url": wheel.as_uri(), "archive_info": {}}
    assert command(monkeypatch, record) == f"pip install '{wheel}[editor]'"


@pytest.mark.parametrize(
    "record",
    [
        {"url": "file:///no/such/clone", "dir_info": {}},
        {"url": "https://example.com/ceras.git", "vcs_info": {"vcs": "git"}},
    ],
)
def test_an_origin_that_is_not_on_this_machine(monkeypatch: pytest.MonkeyPatch, record: object):
    assert command(monkeypatch, record) == "pip install '.[editor]'"


def test_without_metadata(monkeypatch: pytest.MonkeyPatch):
    def missing(name: str) -> Installed:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(extras, "distribution", missing)
    assert install_command("editor") == "pip install '.[editor]'"


def test_pages_name_the_clone():
    assert install_command("editor", IN_CLONE) == "pip install '.[editor]'"


def test_no_page_installs_from_an_index():
    """The package is on no index: pages name the extras of the clone."""
    root = Path(extras.__file__).parents[2]
    pages = [*root.glob("*.md"), *root.glob("docs/*.md"), *root.glob("examples/**/*.md")]
    assert len(pages) > 50
    texts = {page: page.read_text("utf-8") for page in pages}
    wrong = [page for page, text in texts.items() if re.search("pip install [\"']?ceras", text)]
    assert not wrong


def test_each_command_in_the_sources_is_printed_by_this_function():
    package = Path(extras.__file__).parents[1]
    written = [p for p in package.rglob("*.py") if "pip install 'ceras-ir[" in p.read_text("utf-8")]
    assert not written
