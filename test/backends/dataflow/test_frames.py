"""Compare the generated conversions of frames with those of the simulator."""

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.emit import from_port, to_port
from ceras_ir.backends.dataflow.frames import PortFrames, header, module
from ceras_ir.support.native import compiler, has_compiler

SOURCE = """
#include "circuit_frames.h"
size_t sizes(size_t n) { return n == 0 ? CIRCUIT_INPUT_BYTES : CIRCUIT_OUTPUT_BYTES(n - 1); }
void pack(const void *arena, void *stream) { circuit_pack_input(arena, stream); }
void unpack(size_t port, const void *stream, void *arena) {
  circuit_unpack_output(port, stream, arena);
}
"""


@pytest.mark.skipif(not has_compiler(), reason="no compiler is installed")
@pytest.mark.parametrize("is_turned", [False, True])
def test_conversions(is_turned: bool, tmp_path: Path):
    """Three frames at an offset, two outputs, and widths that are no full beats."""
    rng, size, count = np.random.default_rng(1), 4, 3
    features = [Feature(5, 3, 6), Feature(2, 7, 9), Feature(1, 10, 1)]
    offsets = [16, 400, 1000]
    ports = [
        PortFrames(offset, feature, count, size, is_turned)
        for offset, feature in zip(offsets, features, strict=True)
    ]
    (tmp_path / "circuit_frames.h").write_text(header(ports[0], ports[1:]))
    (tmp_path / "frames.c").write_text(SOURCE)
    flags = ["-x", "c", "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command = [*compiler("a test"), *flags, "frames.c", "-o", "frames.so"]
    subprocess.run(command, cwd=tmp_path, check=True)
    library = ctypes.CDLL(str(tmp_path / "frames.so"))
    pointer = ctypes.c_void_p
    library.sizes.argtypes, library.sizes.restype = [ctypes.c_size_t], ctypes.c_size_t
    library.pack.argtypes = [pointer, pointer]
    library.unpack.argtypes = [ctypes.c_size_t, pointer, pointer]
    generated: dict[str, Any] = {}
    exec(module(ports[0], ports[1:]), generated)

    def in_memory(frames: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(frames.swapaxes(1, 2)) if is_turned else frames

    arena = rng.integers(-128, 128, 2000).astype(np.int8)
    f = features[0]
    at_port = rng.integers(-128, 128, (count, f.rows, f.columns, f.channels)).astype(np.int8)
    frames, wanted = in_memory(at_port), np.frombuffer(to_port(at_port, size), np.int8)
    arena[16 : 16 + frames.size] = frames.reshape(-1)
    before = arena.copy()
    assert [library.sizes(n) for n in range(3)] == [port.stream_bytes for port in ports]
    stream = np.full(library.sizes(0), 77, np.int8)
    library.pack(arena.ctypes.data, stream.ctypes.data)
    assert np.array_equal(stream, wanted)
    assert np.array_equal(generated["pack_input"](frames), wanted)
    for n, (offset, feature) in enumerate(zip(offsets[1:], features[1:], strict=True)):
        stream = rng.integers(-128, 128, int(library.sizes(n + 1))).astype(np.int8)
        found = in_memory(from_port(stream.tobytes(), feature, size))
        library.unpack(n, stream.ctypes.data, arena.ctypes.data)
        before[offset : offset + found.size] = found.reshape(-1)
        assert np.array_equal(arena, before)
        assert np.array_equal(generated["unpack_output"](n, stream.view(np.uint8)), found)
