"""The accelerator's cycles in `report.json`: modelled per launch, told per layer and in total."""

from xdsl.utils.hints import isa

Entry = dict[str, object]


def add_performance(content: Entry, extra: Entry) -> None:
    """Add what the manifest entries `extra` say of each launch to the layers of a report."""
    vta = extra["vta"]
    assert isa(vta, Entry)
    launches, totals, regions = vta["launches"], vta["totals"], vta["regions"]
    assert isa(launches, list[Entry]) and isa(totals, Entry) and isa(regions, list[Entry])
    peak = _macs_per_cycle(regions)
    layers, sums = content["layers"], content["totals"]
    assert isa(layers, list[Entry]) and isa(sums, Entry)
    # A swish is in the launch of the layer before it.
    placed = [x for x in layers if x["device"] == "vta" and x["op"] != "shift_swish"]
    for layer, launch in zip(placed, launches, strict=True):
        performance, macs = launch["performance"], layer["macs"]
        assert isa(performance, Entry) and isinstance(macs, int)
        cycles = performance["cycles"]
        assert isinstance(cycles, int)
        share = macs / peak / cycles if cycles else 0.0
        layer |= {**performance, "share_of_peak": round(share, 4)}
    sums |= totals


def _macs_per_cycle(regions: list[Entry]) -> int:
    """Multiplications of one intrinsic, which the shapes of packed values tell."""
    for region in regions:
        shape = region["shape"]
        assert isa(shape, list[int])
        if region["layout"] == "packed" and region["kind"] == "activation":
            # Feature maps of rank 4 and matrices of rank 2 become odd without rows.
            return (shape[-2] if len(shape) % 2 == 0 else 1) * shape[-1] ** 2
    return 1
