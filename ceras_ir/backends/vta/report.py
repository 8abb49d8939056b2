"""The accelerator's cycles in `report.json`: modelled per launch, told per layer and in total."""

from xdsl.utils.hints import isa

from ceras_ir.backends.vta.performance import share_of_peak

Entry = dict[str, object]


def add_performance(content: Entry, extra: Entry) -> None:
    """Add what the manifest entries `extra` say of each launch to the layers of a report."""
    vta = extra["vta"]
    assert isa(vta, Entry)
    launches, totals = vta["launches"], vta["totals"]
    assert isa(launches, list[Entry]) and isa(totals, Entry)
    layers, sums = content["layers"], content["totals"]
    assert isa(layers, list[Entry]) and isa(sums, Entry)
    # A swish is in the launch of the layer before it.
    placed = [x for x in layers if x["device"] == "vta" and x["op"] != "shift_swish"]
    for layer, launch in zip(placed, launches, strict=True):
        performance, macs = launch["performance"], layer["macs"]
        assert isa(performance, Entry) and isinstance(macs, int)
        cycles = performance["cycles"]
        assert isinstance(cycles, int)
        layer |= {**performance, "share_of_peak": round(share_of_peak(macs, cycles), 4)}
    sums |= totals
