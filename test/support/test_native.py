"""Check that C++ programs and shared objects are built a single time."""

import subprocess
from pathlib import Path

import pytest

from ceras_ir.support import native
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.native import Part, build_program, has_compiler

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not has_compiler(), reason="there is no C++ compiler"),
]

FLAGS = ("-O0", "-Wall", "-Werror")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return native.cache_folder()


@pytest.fixture
def shared(tmp_path: Path) -> Part:
    """Write a source that includes a file and a generated header."""
    (tmp_path / "number.h").write_text("int number();\n")
    (tmp_path / "number.cpp").write_text(
        '#include "number.h"\n#include "made.h"\nint number() { return MADE; }\n'
    )
    return Part([tmp_path / "number.cpp"], [tmp_path / "number.h"], FLAGS, {"made.h": made(7)})


def made(number: int) -> str:
    return f"#define MADE {number}\n"


def main(folder: Path, factor: int) -> Part:
    path = folder / f"main{factor}.cpp"
    path.write_text(f'#include "number.h"\nint main() {{ return {factor} * number(); }}\n')
    return Part([path], [folder / "number.h"], FLAGS)


def status(program: Path) -> int:
    return subprocess.run([program], check=False).returncode


def test_programs_share_objects(tmp_path: Path, cache: Path, shared: Part) -> None:
    first = build_program("one", "a test", [shared, main(tmp_path, 1)])
    again = build_program("one", "a test", [shared, main(tmp_path, 1)])
    second = build_program("two", "a test", [shared, main(tmp_path, 3)])
    assert first == again and status(first) == 7 and status(second) == 21
    assert len(list(cache.glob("number-*.o"))) == 1 and len(list(cache.glob("main*.o"))) == 2
    assert not [path for path in cache.iterdir() if path.is_dir()]


def test_whatever_is_included_counts(tmp_path: Path, cache: Path, shared: Part) -> None:
    assert status(build_program("one", "a test", [shared, main(tmp_path, 1)])) == 7
    changed = Part(shared.sources, shared.headers, FLAGS, {"made.h": made(8)})
    assert status(build_program("one", "a test", [changed, main(tmp_path, 1)])) == 8
    (tmp_path / "number.h").write_text("inline int two() { return 2; }\nint number();\n")
    build_program("one", "a test", [shared, main(tmp_path, 1)])
    assert len(list(cache.glob("number-*.o"))) == 3


def test_what_is_generated_is_not_kept(tmp_path: Path, cache: Path) -> None:
    def generate(folder: Path) -> list[Part]:
        (folder / "given.h").write_text("inline int given() { return 5; }\n")
        return []

    (tmp_path / "main.cpp").write_text('#include "given.h"\nint main() { return given(); }\n')
    part = Part([tmp_path / "main.cpp"], (), FLAGS, is_shared=False)
    assert status(build_program("one", "a test", [part], generate, [b"5"])) == 5
    assert [path.name.split("-")[0] for path in cache.iterdir()] == ["one"]


def test_mistakes_are_said_and_leave_nothing(tmp_path: Path, cache: Path, shared: Part) -> None:
    (tmp_path / "number.cpp").write_text("int number() { return unknown; }\n")
    with pytest.raises(InputError, match=r"(?s)cannot build a test:.*unknown"):
        build_program("one", "a test", [shared])
    assert not list(cache.iterdir())
