"""Test the server as an editor uses it: messages over stdin and stdout of its process."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pygls", reason="the extra `editor` is not installed")

pytestmark = pytest.mark.slow

URI = "file:///t.mlir"
TEXT = """\
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = graph.unary <relu> %x : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""


class Editor:
    """The client of the protocol."""

    def __init__(self) -> None:
        command = [Path(sys.executable).with_name("ceras-lsp")]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
        self.number = 0
        self.told: list[dict[str, Any]] = []
        """Notifications received while waiting for a response."""

    def send(self, message: dict[str, object]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(data), data))
        self.process.stdin.flush()

    def receive(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        length = 0
        while (line := self.process.stdout.readline().strip()) or not length:
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
            assert line or self.process.poll() is None, "the server is gone"
        return json.loads(self.process.stdout.read(length))

    def notify(self, method: str, **params: object) -> None:
        self.send({"method": method, "params": params})

    def ask(self, method: str, **params: object) -> Any:
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == self.number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self.told.append(message)

    def open(self, text: str) -> list[dict[str, Any]]:
        """Open a document; the errors that the server publishes."""
        document = {"uri": URI, "languageId": "mlir", "version": 1, "text": text}
        self.notify("textDocument/didOpen", textDocument=document)
        while True:
            message = self.receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                return message["params"]["diagnostics"]
            self.told.append(message)

    def at(self, method: str, line: int, character: int) -> Any:
        place = {"line": line, "character": character}
        return self.ask(f"textDocument/{method}", textDocument={"uri": URI}, position=place)


@pytest.fixture
def editor() -> Iterator[Editor]:
    editor = Editor()
    try:
        found = editor.ask("initialize", processId=None, rootUri=None, capabilities={})
        assert found["serverInfo"]["name"] == "ceras-lsp"
        editor.notify("initialized")
        yield editor
        editor.ask("shutdown")
        editor.notify("exit")
        assert editor.process.wait(timeout=30) == 0
    finally:
        editor.process.kill()


def test_an_editing_session(editor: Editor):
    assert editor.open(TEXT) == []
    hover = editor.at("hover", 1, 10)
    assert hover["contents"]["value"].startswith("**graph.unary** (operation)")
    made = editor.at("definition", 2, 15)
    assert made["range"]["start"] == {"line": 1, "character": 2}
    (lens,) = editor.ask("textDocument/codeLens", textDocument={"uri": URI})
    assert lens["command"]["title"] == "run level" and lens["range"]["start"]["line"] == 0
    said = editor.ask(
        "workspace/executeCommand",
        command=lens["command"]["command"],
        arguments=lens["command"]["arguments"],
    )
    assert said.startswith("output0: float32[4]")
    shown = [m for m in editor.told if m.get("method") == "window/showMessage"]
    assert shown[-1]["params"]["message"] == said


def test_errors_are_published_and_do_not_stop_it(editor: Editor):
    (error,) = editor.open(TEXT.replace("unary", "unry"))
    assert error["range"]["start"]["line"] == 1 and "graph.unry" in error["message"]
    said = editor.ask("workspace/executeCommand", command="ceras.runLevel", arguments=[URI, 0])
    assert "error" in said
    assert editor.at("hover", 0, 3) is not None


def test_files_that_are_not_open(editor: Editor):
    """Neither missing files nor devices are read, and the server continues."""
    for uri in ("file:///missing/x.mlir", "file:///dev/zero", "file:///etc", "untitled:x", ""):
        document, place = {"uri": uri}, {"line": 10**9, "character": 0}
        assert editor.ask("textDocument/hover", textDocument=document, position=place) is None
        assert editor.ask("textDocument/definition", textDocument=document, position=place) is None
        assert editor.ask("textDocument/codeLens", textDocument=document) == []
        run = {"command": "ceras.runLevel", "arguments": [uri, 10**9]}
        assert "main" in editor.ask("workspace/executeCommand", **run)
    editor.notify("textDocument/didClose", textDocument={"uri": "file:///missing/x.mlir"})
    assert editor.open(TEXT) == []


@pytest.mark.slow
@pytest.mark.parametrize("sent", [b"Content-Length: 100000000000\r\n\r\n{}"])
def test_messages_that_are_too_long(sent: bytes):
    command = [Path(sys.executable).with_name("ceras-lsp")]
    done = subprocess.run(command, input=sent, capture_output=True, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(b"ceras-lsp: error: a ") and done.stderr.count(b"\n") == 1
