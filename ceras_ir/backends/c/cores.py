"""What is known of a microcontroller's core beyond its board: one entry for each."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Core:
    """The defaults are those of a core that is not in the table."""

    has_dsp: bool = False
    """Whether it has the DSP extension: SMLAD and its like."""
    float_library_bytes: int = 0
    """What the compiler's library adds for floats where the core computes none."""
    is_emulated: bool = False
    """Whether the emulated core, a Cortex-M4, has all of its instructions."""


CORES = {
    "cortex-m0plus": Core(float_library_bytes=3400, is_emulated=True),
    "cortex-m3": Core(float_library_bytes=1400, is_emulated=True),
    "cortex-m4": Core(has_dsp=True, is_emulated=True),
    "cortex-m7": Core(has_dsp=True),
    "cortex-m33": Core(has_dsp=True),
    "cortex-m35p": Core(has_dsp=True),
    "cortex-m55": Core(has_dsp=True),
}
"""By the name in a board's `core`."""
