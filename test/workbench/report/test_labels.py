"""Check that labels of pictures are inside the picture and do not overlap."""

import random
import xml.etree.ElementTree as ElementTree
from itertools import combinations

import pytest

from ceras_ir.support.timeline import Bar, Lane, Timeline, timeline_picture
from ceras_ir.workbench.pages import Ratio, ratio_plot
from ceras_ir.workbench.report.content import (
    Device,
    DrawnBuffer,
    DrawnBuild,
    DrawnPlan,
    DrawnRegion,
    Row,
    TradeOff,
)
from ceras_ir.workbench.report.graph_picture import graph_picture
from ceras_ir.workbench.report.memory_picture import memory_picture
from ceras_ir.workbench.report.roofline import roofline
from ceras_ir.workbench.report.trade_off import Axis, trade_off_picture

ENDS = {"end", "number", "shape", "region"}
MIDDLES = {"tick", "step"}
"""Classes of labels that are right-aligned or centered."""

Box = tuple[float, float, float, float]


def picture_of(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])


def boxes_of(picture: ElementTree.Element) -> list[tuple[str, Box]]:
    """Return each label with the estimated rectangle, of an average font."""
    found: list[tuple[str, Box]] = []
    for label in picture.iter():
        if not label.tag.endswith("text"):
            continue
        text, kind = label.text or "", label.get("class", "")
        width = (7.6 if kind == "op" else 6.6) * len(text)
        x, y = float(label.get("x", "")), float(label.get("y", ""))
        anchor = label.get("text-anchor", "")
        shift = width if kind in ENDS or anchor == "end" else 0.0
        shift = width / 2 if kind in MIDDLES or anchor == "middle" else shift
        found.append((text, (x - shift, y - 9, x - shift + width, y + 1)))
    return found


def check(text: str) -> list[str]:
    """Compare all pairs of labels of a picture, and return the labels."""
    picture = picture_of(text)
    _, _, width, height = map(float, picture.get("viewBox", "").split())
    labels = boxes_of(picture)
    for name, (left, top, right, bottom) in labels:
        assert left >= 0 and top >= -1 and right <= width and bottom <= height, name
    for (one, a), (two, b) in combinations(labels, 2):
        apart = a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]
        assert apart, (one, two, a, b)
    return [name for name, _ in labels]


def long_name(chance: random.Random) -> str:
    words = ["features", "Mobile_Block", "w_m", "conv", "Relu6", "fuse_transform", "14"]
    return "/".join(chance.choices(words, k=chance.randint(1, 9)))


@pytest.mark.parametrize("seed", range(4))
def test_labels_of_a_memory_plan(seed: int):
    chance = random.Random(seed)
    steps, size = chance.choice([(3, 96), (20, 5000), (90, 3_000_000)])
    buffers: list[DrawnBuffer] = []
    for i in range(80):
        offset, first = chance.randrange(size), chance.randrange(steps)
        end = chance.randint(first + 1, steps)
        kind = chance.choice(["", "", "workspace", "state"])
        device = "" if kind else chance.choice(["cpu", "vta"])
        count = chance.randint(1, size - offset)
        region = chance.choice(["fast", "slow"]) if seed % 2 else ""
        name = f"{long_name(chance)}_{i}"
        buffers.append(DrawnBuffer(name, device, region, offset, count, first, end, kind))
    regions = (DrawnRegion("fast", 10, 20), DrawnRegion("slow", size, size)) if seed % 2 else ()
    plan = DrawnPlan(steps, size + 10 * (seed % 2), size, size, tuple(buffers), regions)
    names = check(memory_picture(plan))
    # A shortened label keeps the last part of the name, in which layers differ.
    assert any(name.rpartition("_")[2].isdigit() for name in names)


def row(chance: random.Random, number: int, name: str) -> Row:
    op = chance.choice(["conv2d", "mem.pack_windows", "binary less_or_equal_elementwise", "WWWWW"])
    inputs = tuple(chance.sample(range(number), min(number, 2))) if number else ("x",)
    shape = tuple(chance.randint(1, 4000) for _ in range(chance.randint(0, 7)))
    macs = chance.choice([0, 10, 10**9])
    return Row(number, name, op, "cpu", macs, 10**6, shape, inputs, 10 ** chance.uniform(-3, 6), {})


def test_labels_of_a_graph():
    chance = random.Random(0)
    rows = [row(chance, i, long_name(chance)) for i in range(100)]
    names = check(graph_picture(rows, ["x"], {"y" * 90: 99}))
    assert len(names) > 200


@pytest.mark.parametrize("rate", [0.01, 2.0, 5e6])
def test_labels_of_a_roofline(rate: float):
    chance = random.Random(1)
    rows = [row(chance, i, long_name(chance)) for i in range(60)]
    text = roofline(rows, [Device("cpu", rate, 4 * rate)], {"cpu": "#123456"})
    assert text is not None
    check(text)


@pytest.mark.parametrize("cycles", [7, 6348, 9_999_999_999])
def test_labels_of_a_timeline(cycles: int):
    lanes = tuple(Lane(f"{name} of the accelerator", 1.0, (Bar(0, 9, "a"),)) for name in "ab")
    check(timeline_picture(Timeline("t", cycles, "", ("a",), lanes)))


@pytest.mark.parametrize("values", [(0.0, 20.0), (-250.0, 299.0), (-1000.0, 12.0)])
def test_labels_of_a_noise_plot(values: tuple[float, float]):
    layers = [Ratio(f"layer{i}", "conv2d", *values) for i in range(1234)]
    check(ratio_plot(layers, ("a", "b")))


def builds(*figures: tuple[int, float | None]) -> tuple[DrawnBuild, ...]:
    return tuple(DrawnBuild(flash, 100, time, "-Os", "loops & <dsp>") for flash, time in figures)


@pytest.mark.parametrize(
    "figures",
    [
        ((20853, 71904.308), (22059, 12186.625), (23975, 9249.292), (59303, 7425.292)),
        ((1000, 50.0), (1001, 49.9), (1002, 49.8)),
        ((100, 1e7), (5_000_000, 3.0), (5_000_001, 2.9)),
        ((7, 3.0), (7, 3.0), (8, 3.0)),
    ],
)
def test_labels_of_size_and_time(figures: tuple[tuple[int, float], ...]):
    curve = builds(*figures)
    goals = {"size": curve[0], "balanced": curve[1], "speed": curve[-1]}
    text = trade_off_picture(TradeOff("balanced", goals, curve))
    assert text is not None
    names = check(text)
    words = [word for name in names for word in name.split(", ")]
    assert {"size", "balanced (selected)", "speed"} <= set(words)
    assert "loops &amp; &lt;dsp&gt;" in text


def test_builds_without_times_have_no_picture():
    curve = builds((100, None), (200, None), (300, 2.0))
    assert trade_off_picture(TradeOff("size", {"size": curve[0]}, curve)) is None


@pytest.mark.parametrize(
    ("values", "ticks", "is_logarithmic"),
    [
        ((20.4, 57.9), (20, 30, 40, 50, 60), False),
        ((3.0, 29.0), (0, 5, 10, 15, 20, 25, 30), False),
        ((3.0, 31.0), (2, 5, 10, 20, 50), True),
        ((8.0, 8.0), (8, 10), False),
        ((0.0, 500.0), (0, 100, 200, 300, 400, 500), False),
        ((0.0, 0.0), (0, 0.2), False),
        ((1.0, 1000.0), (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000), True),
    ],
)
def test_an_axis_has_round_ends(
    values: tuple[float, float], ticks: tuple[float, ...], is_logarithmic: bool
):
    axis = Axis.of(values)
    assert axis.ticks == pytest.approx(ticks) and axis.is_logarithmic == is_logarithmic
    assert all(0 <= axis.share(value) <= 1 for value in values)
    assert axis.share(ticks[0]) == 0 and axis.share(ticks[-1]) == 1
