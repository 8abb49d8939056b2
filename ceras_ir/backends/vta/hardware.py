"""
What VTA's implementations have in common, and no configuration says.

Sources: functional simulator (`sim_driver.cc`), HLS design (`vta.cc`) and Chisel RTL (`core/`) of
apache/tvm-vta. Cycles are `timing`'s; sizes that a configuration says are `board`'s.
"""

DEFAULT_BOARD_NAME = "tsim"
"""The Chisel design in its cycle-accurate simulator, on which `timing` was measured."""

INSTRUCTION_BYTES = 16

PORTABLE_UOPS = 2048
"""Micro-op memory of the Chisel RTL (`uopMemDepth`); higher indices alias there."""

IMMEDIATE_RANGE = (-(2**15), 2**15 - 1)
"""What an ALU operation takes as a constant."""

SHR_RANGE = (-16, 15)
"""HLS reads five signed bits of a shift amount (`aluop_shr_arg_T`)."""

QUEUE_LENGTH = 512
"""Instructions that wait in front of a module (`instQueueEntries`, `STREAM_IN_DEPTH`)."""

TOKEN_LIMIT = 255
"""Most tokens of one kind outstanding: the RTL's semaphores have 8 bits and saturate."""

GEMM_PIPELINE = 2
"""
Iterations of a GEMM before an accumulator that one has written may be written again: HLS pipelines
`acc_mem` with `DEPENDENCE inter false`.
"""

RESIDUAL_WEIGHT_BITS = 6
"""Most bits by which an int8 diagonal can move a residual left; 2^7 would not be int8."""


def is_immediate(value: int) -> bool:
    """Whether an ALU operation takes `value` as a constant."""
    return IMMEDIATE_RANGE[0] <= value <= IMMEDIATE_RANGE[1]
