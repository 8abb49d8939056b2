"""Draw street scenes with the class of each pixel: `python scenes.py OUT [--count N] [--seed S]`.

Six classes: sky, building, road, pavement, tree, car. OUT gets `images` and `labels`, PNG files of
equal names. The same seed draws the same scenes.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

CLASSES = ("sky", "building", "road", "pavement", "tree", "car")


class Scene:
    """A picture and its labels, drawn together: each shape is drawn into both."""

    def __init__(self, height: int, width: int, random: np.random.Generator):
        self.random, self.height, self.width = random, height, width
        self.picture = Image.new("RGB", (width, height))
        self.labels = Image.new("L", (width, height))
        self._pens = ImageDraw.Draw(self.picture), ImageDraw.Draw(self.labels)

    def near(self, colour: tuple[int, int, int], spread: int = 25) -> tuple[int, int, int]:
        """Return a color near the given color."""
        shifts = self.random.integers(-spread, spread + 1, 3)
        r, g, b = (int(np.clip(c + s, 0, 255)) for c, s in zip(colour, shifts, strict=True))
        return r, g, b

    def polygon(
        self, name: str, points: list[tuple[float, float]], colour: tuple[int, int, int]
    ) -> None:
        """Draw a polygon; points are fractions of width and height."""
        at = [(x * self.width, y * self.height) for x, y in points]
        self._pens[0].polygon(at, fill=self.near(colour))
        self._pens[1].polygon(at, fill=CLASSES.index(name))

    def ellipse(
        self, name: str, box: tuple[float, float, float, float], colour: tuple[int, int, int]
    ) -> None:
        at = [v * (self.width, self.height)[n % 2] for n, v in enumerate(box)]
        self._pens[0].ellipse(at, fill=self.near(colour))
        self._pens[1].ellipse(at, fill=CLASSES.index(name))

    def box(self, name: str, left: float, top: float, right: float, bottom: float,
            colour: tuple[int, int, int]) -> None:  # fmt: skip
        self.polygon(name, [(left, top), (right, top), (right, bottom), (left, bottom)], colour)

    def noisy(self) -> Image.Image:
        """Return the picture as a camera would take it: brighter or darker, with noise."""
        pixels = np.asarray(self.picture, np.float64)
        light, noise = self.random.uniform(0.6, 1.15), self.random.uniform(4, 14)
        pixels = pixels * light + self.random.normal(0, noise, pixels.shape)
        return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def draw(height: int, width: int, random: np.random.Generator) -> Scene:
    """Draw a road to the horizon between pavements, houses and trees, with cars on it."""
    scene, u = Scene(height, width, random), random.uniform
    horizon, end = u(0.35, 0.55), u(0.35, 0.65)
    scene.box("sky", 0, 0, 1, 1, (140, 180, 225) if u(0, 1) < 0.7 else (190, 190, 195))
    x = -0.1
    while x < 1:
        size, top = u(0.1, 0.3), u(0.05, horizon - 0.08)
        if u(0, 1) < 0.85:
            scene.box("building", x, top, x + size, horizon + 0.05, (140, 110, 95))
        x += size
    scene.box("pavement", 0, horizon, 1, 1, (165, 160, 155))
    left, right = u(-0.25, 0.15), u(0.85, 1.25)
    edge = [(end - 0.04, horizon), (end + 0.04, horizon), (right, 1.0), (left, 1.0)]
    scene.polygon("road", edge, (85, 85, 90))
    for _ in range(int(random.integers(0, 5))):
        x, base = u(0, 1), u(horizon + 0.02, horizon + 0.3)
        if abs(x - end) < 0.15:
            continue
        size = u(0.06, 0.16) * (0.6 + 2 * (base - horizon))
        scene.box("tree", x - size / 8, base - 2 * size, x + size / 8, base, (90, 65, 45))
        scene.ellipse("tree", (x - size, base - 4 * size, x + size, base - size), (50, 105, 45))
    for depth in sorted(u(0.15, 0.9, int(random.integers(0, 4)))):
        y = horizon + (1 - horizon) * depth
        centre = end + ((left + right) / 2 - end) * depth + u(-0.25, 0.25) * depth
        size = 0.05 + 0.17 * depth
        colour = ((170, 30, 35), (35, 60, 150), (225, 225, 220), (30, 30, 35))[random.integers(4)]
        scene.box("car", centre - size, y - size, centre + size, y, colour)
        scene.box("car", centre - size * 0.7, y - 1.6 * size, centre + size * 0.7, y - size, colour)
    return scene


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--count", type=int, default=240)
    parser.add_argument("--size", default="96x128", help="height x width")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    height, width = map(int, options.size.split("x"))
    for name in ("images", "labels"):
        (options.output / name).mkdir(parents=True, exist_ok=True)
    for n in range(options.count):
        scene = draw(height, width, np.random.default_rng([options.seed, n]))
        scene.noisy().save(options.output / "images" / f"{n:04}.png")
        scene.labels.save(options.output / "labels" / f"{n:04}.png")


if __name__ == "__main__":
    main()
