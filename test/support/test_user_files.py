"""Check that devices and pipes are refused before they are read."""

import os
import socket
import threading
import tracemalloc
from pathlib import Path

import pytest

from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.files import parse_toml
from ceras_ir.support.user_files import read_bytes, read_text, regular


def test_files_and_links_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\r\nb\rc\n")
    (tmp_path / "link").symlink_to("file")
    for name in ("file", "link"):
        assert regular(tmp_path / name) == tmp_path / name
        assert read_bytes(str(tmp_path / name)) == b"a\r\nb\rc\n"
        assert read_text(tmp_path / name) == "a\nb\nc\n"


def test_other_kinds_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "socket"))
    for name, message in (
        ("pipe", "a pipe"),
        ("device", "a device, expected a file"),
        ("socket", "a socket|No such device"),
        ("loop", "Too many levels"),
        ("missing", "No such file"),
        ("", "Is a directory"),
    ):
        for read in (regular, read_bytes):
            with pytest.raises(OSError, match=message) as info:
                read(tmp_path / name)
            assert str(info.value.filename) == str(tmp_path / name)


def test_a_pipe_with_a_writer_is_read(tmp_path: Path) -> None:
    """The content is complete when the last writer closes the pipe."""
    os.mkfifo(path := tmp_path / "pipe")
    writer = os.open(path, os.O_RDWR)
    os.write(writer, bytes(1000))
    closing = threading.Timer(0.2, os.close, [writer])
    closing.start()
    assert read_bytes(path) == bytes(1000)
    closing.join()


def test_a_pipe_of_a_shell_is_read() -> None:
    """The shell passes the name of an open pipe, whose writer may have ended."""
    reader, writer = os.pipe()
    os.write(writer, b"text")
    os.close(writer)
    assert read_text(f"/dev/fd/{reader}") == "text"
    os.close(reader)


def test_memory_is_that_of_the_content(tmp_path: Path) -> None:
    """The limit is not allocated: a small file needs little memory."""
    (path := tmp_path / "file").write_bytes(bytes(1000))
    os.mkfifo(pipe := tmp_path / "pipe")
    writer = os.open(pipe, os.O_RDWR)
    os.write(writer, bytes(1000))
    closing = threading.Timer(0.2, os.close, [writer])
    closing.start()
    tracemalloc.start()
    assert read_bytes(path) == read_bytes(pipe) == bytes(1000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    closing.join()
    assert peak < 4 << 20


def test_files_have_a_largest_size(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(bytes(5))
    assert read_bytes(path, 5) == bytes(5)
    with pytest.raises(OSError, match="more than 4 bytes"):
        read_bytes(path, 4)
    with open(path, "wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(OSError, match="more than"):
        read_bytes(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a" + ".a" * 100_000 + " = 1\n", "nested too deeply"),
        ('"a"' + ' . "a"' * 100_000 + " = 1\n", "nested too deeply"),
        ('a = "x\\u0000y"\n', "a text with a zero byte"),
    ],
)
def test_toml_that_no_file_needs(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        parse_toml(text, "f.toml")


def test_numbers_and_texts_with_dots_are_no_deep_keys() -> None:
    text = f"a = [{'1.5, ' * 1000}]\nb.c.d = '{'x. ' * 99}'\n"
    assert parse_toml(text, "f.toml")["b"] == {"c": {"d": "x. " * 99}}
