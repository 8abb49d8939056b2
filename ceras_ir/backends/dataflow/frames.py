"""
Print functions that convert frames between the memory of the host and the streams of the ports, as
a C header and as a Python module for NumPy.

A stream has all rows of a frame, a row all channels, and a channel all columns, padded with zeros
to full beats. In memory, a frame is [rows, columns, channels], or [columns, rows, channels] if the
circuit exchanges rows and columns. A test compares both with `to_port` and `from_port`.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ceras_ir.backends.dataflow.blocks import Feature
from ceras_ir.backends.dataflow.storage import ceiling

HEADER, MODULE = "circuit_frames.h", "circuit_frames.py"


@dataclass(frozen=True)
class PortFrames:
    """The frames of a launch at a port."""

    offset: int
    """The position of the first frame in the arena in bytes."""
    feature: Feature
    frames: int
    port_bytes: int
    is_turned: bool

    @property
    def width(self) -> int:
        """The bytes of a channel of a row in the stream."""
        return ceiling(self.feature.columns, self.port_bytes) * self.port_bytes

    @property
    def stream_bytes(self) -> int:
        return self.frames * self.feature.words * self.width

    @property
    def steps(self) -> tuple[int, int]:
        """The distance in memory from a row to the next, and from a column to the next."""
        f = self.feature
        if self.is_turned:
            return f.channels, f.rows * f.channels
        return f.columns * f.channels, f.channels


_C_BODY = """
typedef struct {
  size_t offset; /* of the first frame in the arena */
  size_t frames, rows, channels, columns;
  size_t width; /* of a channel of a row in the stream: full beats */
  size_t row_step, column_step; /* in the arena */
} circuit_port;

/* Write the frames of the input to `stream`, of CIRCUIT_INPUT_BYTES bytes, for s_axis. */
static inline void circuit_pack_input(const void *arena, void *stream) {
  const circuit_port *p = &circuit_input;
  const uint8_t *from = (const uint8_t *)arena + p->offset;
  uint8_t *to = (uint8_t *)stream;
  for (size_t n = 0; n < p->frames; ++n, from += p->rows * p->channels * p->columns)
    for (size_t r = 0; r < p->rows; ++r)
      for (size_t k = 0; k < p->channels; ++k, to += p->width)
        for (size_t c = 0; c < p->width; ++c)
          to[c] = c < p->columns ? from[r * p->row_step + c * p->column_step + k] : 0;
}

/* Read the frames of output `port` from `stream`, of CIRCUIT_OUTPUT_BYTES(port) bytes. */
static inline void circuit_unpack_output(size_t port, const void *stream, void *arena) {
  const circuit_port *p = &circuit_outputs[port];
  const uint8_t *from = (const uint8_t *)stream;
  uint8_t *to = (uint8_t *)arena + p->offset;
  for (size_t n = 0; n < p->frames; ++n, to += p->rows * p->channels * p->columns)
    for (size_t r = 0; r < p->rows; ++r)
      for (size_t k = 0; k < p->channels; ++k, from += p->width)
        for (size_t c = 0; c < p->columns; ++c)
          to[r * p->row_step + c * p->column_step + k] = from[c];
}
"""


def header(source: PortFrames, results: Sequence[PortFrames]) -> str:
    """
    Return a C99 header with the functions `circuit_pack_input` and `circuit_unpack_output`, with
    which `model_launch` accesses the arena.
    """
    kind, functions = _C_BODY.split("\n\n", 1)
    bytes_of_port = "".join(f"(port) == {n} ? {p.stream_bytes} : " for n, p in enumerate(results))
    outputs = "".join(f"  {_initializer(port)},\n" for port in results)
    return (
        "/* Generated: frames of a launch between the arena and the streams of the circuit. */\n"
        "#ifndef CIRCUIT_FRAMES_H\n#define CIRCUIT_FRAMES_H\n"
        "#include <stddef.h>\n#include <stdint.h>\n\n"
        f"#define CIRCUIT_OUTPUTS {len(results)}\n"
        f"#define CIRCUIT_INPUT_BYTES {source.stream_bytes}\n"
        f"#define CIRCUIT_OUTPUT_BYTES(port) ({bytes_of_port}0)\n"
        f"{kind}\n\n"
        f"static const circuit_port circuit_input = {_initializer(source)};\n"
        f"static const circuit_port circuit_outputs[CIRCUIT_OUTPUTS] = {{\n{outputs}}};\n\n"
        f"{functions}\n#endif\n"
    )


def _initializer(port: PortFrames) -> str:
    f = port.feature
    numbers = (port.offset, port.frames, f.rows, f.channels, f.columns, port.width, *port.steps)
    return f"{{{', '.join(map(str, numbers))}}}"


_PYTHON_BODY = '''
def pack_input(frames: np.ndarray) -> np.ndarray:
    """
    Return the stream for s_axis of int8 frames, [frames, rows, columns, channels]; any number.
    """
    _, rows, columns, channels, width = INPUT
    words = frames.reshape(-1, *((columns, rows) if TURNED else (rows, columns)), channels)
    words = words.transpose((0, 2, 3, 1) if TURNED else (0, 1, 3, 2))
    return np.pad(words, [(0, 0)] * 3 + [(0, width - columns)]).reshape(-1)


def unpack_output(port: int, stream: np.ndarray) -> np.ndarray:
    """Return the int8 frames of output `port`, [frames, rows, columns, channels], of a stream."""
    _, rows, columns, channels, width = OUTPUTS[port]
    words = stream.view(np.int8).reshape(-1, rows, channels, width)[..., :columns]
    return np.ascontiguousarray(words.transpose((0, 3, 1, 2) if TURNED else (0, 1, 3, 2)))
'''


def module(source: PortFrames, results: Sequence[PortFrames]) -> str:
    """Return a Python module with the functions `pack_input` and `unpack_output`."""

    def numbers(port: PortFrames) -> str:
        f = port.feature
        return f"({port.frames}, {f.rows}, {f.columns}, {f.channels}, {port.width})"

    outputs = "".join(f"    {numbers(port)},\n" for port in results)
    return (
        '"""Generated: frames of a launch, and the streams of the circuit."""\n\n'
        "import numpy as np\n\n"
        "# Frames of an inference; rows, columns and channels at a port; bytes of a channel row.\n"
        f"INPUT = {numbers(source)}\n"
        f"OUTPUTS = (\n{outputs})\n"
        "# Whether the rows of the ports are the columns of frames in memory.\n"
        f"TURNED = {source.is_turned}\n\n{_PYTHON_BODY}"
    )
