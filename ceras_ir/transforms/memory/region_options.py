"""Declare the option for several memories, without the planner, so that targets load fast."""

from ceras_ir.support.options import option, options


@options
class RegionOptions:
    """The option of `allocate-blocks` and of targets with several memories."""

    regions: tuple[str, ...] = option((), metavar="NAME:BYTES,...")
    """
    Store each result in one of these memories, in the order of preference, such as
    sram:65536,psram:8388608.

    The form `NAME:BYTES:BYTES_PER_US` includes the bandwidth.
    """
