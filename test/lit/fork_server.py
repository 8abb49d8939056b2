"""
Run the commands of the tests in forks of a process that has imported all modules.

    lit -Dforked=1
    pytest --forked

A server imports the tools a single time and forks for each command. `write_commands` puts clients
on PATH in place of the commands. A client sends arguments, folder, environment and open files over
a socket, and exits with the status that it receives. Otherwise start-up is half of the time of a
lit test. The full test suite runs the real commands.
"""

import array
import atexit
import gc
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from select import select

import ceras_ir
from ceras_ir.command.entry_point import commands

COMMANDS = {
    "filecheck": "filecheck.main:main",
    "ceras": "ceras_ir.command.dispatch:main",
    **{point.name: point.value for point in commands().values()},
}
"""Map a command to `module:function`."""

PRELOADED = ("xdsl.dialects.arith", "xdsl.dialects.scf", "xdsl.interpreters.scf")
"""Modules to import in addition to all modules of the package."""

CLIENT = """#!{python} -IS
# `socket` and `json` would take longer to import than all else.
import _socket, array, os, sys
words = [{command!r}, os.getcwd(), str(len(sys.argv) - 1), *sys.argv[1:]]
words += [f"{{name}}={{value}}" for name, value in os.environ.items()]
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.connect({address!r})
files = array.array("i", [0, 1, 2])
server.sendmsg([b"."], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, files)])
server.sendall(b"\\0".join(map(os.fsencode, words)))
server.shutdown(_socket.SHUT_WR)
status = server.recv(1)
os._exit(status[0] if status else 70)
"""


def start() -> str:
    """Start a server that exits with this process, and return the folder of the commands."""
    server = subprocess.Popen(
        [sys.executable, __file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert server.stdout is not None
    return server.stdout.readline().decode().strip()


def write_commands(folder: Path, address: str) -> None:
    for command in COMMANDS:
        text = CLIENT.format(python=sys.executable, command=command, address=address)
        (folder / command).write_text(text)
        (folder / command).chmod(0o755)


def run(connection: socket.socket) -> int:
    """Run a command in this process, which was forked for it."""
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_LEN(3 * array.array("i").itemsize))
    files = array.array("i")
    files.frombytes(ancillary[0][2])
    request = b"".join(iter(lambda: connection.recv(1 << 16), b""))
    command, folder, count, *words = map(os.fsdecode, request.split(b"\0"))
    arguments, environment = words[: int(count)], words[int(count) :]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    # The file objects of the server do not match these files.
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(number, mode, buffering, closefd=False)
        for number, (mode, buffering) in enumerate((("r", -1), ("w", -1), ("w", 1)))
    )
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(entry.split("=", 1) for entry in environment)
    sys.argv = [command, *arguments]
    module, _, function = COMMANDS[command].partition(":")
    main: Callable[[], int | None] = getattr(import_module(module), function)
    try:
        return main() or 0
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1 if end.code else 0
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1


def serve(folder: Path) -> None:
    package = walk_packages(ceras_ir.__path__, "ceras_ir.")
    for name in (*PRELOADED, "filecheck.main", *(module.name for module in package)):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            # The module belongs to an extra; commands that need it report an error.
            if (error.name or "").startswith("ceras_ir"):
                raise
    gc.freeze()
    address = str(folder / "socket")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(address)
        server.listen(64)
        write_commands(folder, address)
        print(folder, flush=True)
        # Do not wait for children; they send their status to the client.
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while sys.stdin not in select([server, sys.stdin], [], [])[0]:
            connection, _ = server.accept()
            if os.fork():
                connection.close()
                continue
            server.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            status = run(connection)
            # Delete temporary folders, as at the exit of a process.
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
            connection.sendall(bytes([status]))
            os._exit(0)


if __name__ == "__main__":
    # A TemporaryDirectory would be removed at the exit of a child.
    place = tempfile.mkdtemp(prefix="ceras-lit-")
    try:
        serve(Path(place))
    finally:
        shutil.rmtree(place)
