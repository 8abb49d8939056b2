"""Configurations of VTA whose bus, buffers or intrinsic differ from the published configuration."""

from ceras_ir.backends.vta.machine.board import VtaBoard

CONFIGURATIONS = {
    "published": VtaBoard("published", bus_bytes=8),
    "wide-bus": VtaBoard("wide-bus", bus_bytes=16),
    "lanes-32": VtaBoard("lanes-32", 11, 10, 8, 10, bus_bytes=16, log_block=5),
    "rows-2": VtaBoard("rows-2", 13, 10, 10, 10, bus_bytes=8, log_batch=1),
    "lanes-8": VtaBoard("lanes-8", 12, 11, 10, 11, bus_bytes=8, log_block=3),
    "small": VtaBoard("small", 9, 9, 8, 8, bus_bytes=32, log_batch=1, log_block=5),
}
"""
The list has these configurations:

- `published`, `wide-bus`: the published buffers, with a bus of 64 and of 128 bits;
- `lanes-32`, `rows-2`: 32 lanes and 2 rows, with buffers of the published size in bytes;
- `lanes-8`: 8 lanes, with as many elements as micro-ops can address;
- `small`: 2 rows of 32 lanes, with small buffers.
"""
