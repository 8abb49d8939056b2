"""
Data for `trained_networks.py`: images of the CamVid dataset with masks or in two sizes, tones, and
spectra of synthetic words.

Each function returns inputs and targets, float32 [N, ...] or int64. Sounds are synthetic, because
they are reproducible without a download; images are those of the folder that the user names.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from PIL import Image

Floats: TypeAlias = NDArray[np.float32]
Integers: TypeAlias = NDArray[np.int64]
Random: TypeAlias = np.random.Generator

SIZE = (96, 128)
"""Rows and columns of the images of segmentation and of the results of super-resolution."""

CAR = 8
REGIONS = (0, 1, 1, 2, 2, 3, 1, 1, 4, 4, 4, 5)
"""The region of each of the classes of CamVid: sky, buildings, ground, trees, traffic, unknown."""
UNKNOWN = 5

RATE, SAMPLES = 8000, 1024
NOTES, LOWEST = 36, 110.0
"""The number of semitones that a pitch detector distinguishes, and the lowest frequency in Hz."""

MEL_BANDS, FRAMES, WORDS = 40, 64, 12


def _paths(camvid: Path, part: str) -> Iterator[tuple[Path, Path]]:
    for path in sorted((camvid / part).glob("*.png")):
        yield path, camvid / f"{part}annot" / path.name


def street_masks(camvid: Path, part: str) -> tuple[Floats, Integers]:
    """
    Return all images of `part` (`train`, `val` or `test`) [N, 3, rows, columns] from 0 to 1, and
    the CamVid class of each pixel [N, rows, columns].
    """
    inputs, classes = list[Floats](), list[Integers]()
    for image, labels in _paths(camvid, part):
        with Image.open(image) as opened:
            small = opened.convert("RGB").resize((SIZE[1], SIZE[0]), Image.Resampling.BOX)
        with Image.open(labels) as opened:
            marks = opened.resize((SIZE[1], SIZE[0]), Image.Resampling.NEAREST)
        inputs.append(np.asarray(small, np.float32).transpose(2, 0, 1) / np.float32(255))
        classes.append(np.asarray(marks).astype(np.int64))
    return np.stack(inputs), np.stack(classes)


def street_pairs(
    camvid: Path, part: str, random: Random, count: int, *, gray: bool
) -> tuple[Floats, Floats]:
    """
    Return `count` random details of images in half the size, and in the original size [N, channels,
    rows, columns], from 0 to 1. `gray` means a channel of brightness.
    """
    paths = [image for image, _ in _paths(camvid, part)]
    small, large = list[Floats](), list[Floats]()
    for n in range(count):
        with Image.open(paths[n % len(paths)]) as opened:
            image = opened.convert("L" if gray else "RGB")
        y = int(random.integers(image.height - SIZE[0] + 1))
        x = int(random.integers(image.width - SIZE[1] + 1))
        detail = image.crop((x, y, x + SIZE[1], y + SIZE[0]))
        half = detail.resize((SIZE[1] // 2, SIZE[0] // 2), Image.Resampling.BICUBIC)
        for chosen, found in ((half, small), (detail, large)):
            pixels = np.asarray(chosen, np.float32) / np.float32(255)
            found.append(pixels[None] if gray else pixels.transpose(2, 0, 1))
    return np.stack(small), np.stack(large)


def tones(random: Random, count: int) -> tuple[Floats, Integers]:
    """
    Return `count` harmonic tones with noise and hum [N, samples], and the semitone of each [N].
    Loudness differs by 30 dB, the noise is 0 to 20 dB below the tone.
    """
    notes = random.integers(NOTES, size=count)
    first = LOWEST * np.exp2((notes + random.uniform(-0.45, 0.45, count)) / 12)
    time = np.arange(SAMPLES) / RATE
    sound = np.zeros((count, SAMPLES))
    decline = random.uniform(0.3, 1.8, count)
    for harmonic in range(1, 13):
        frequency = first * harmonic
        size = harmonic**-decline * random.uniform(0.2, 1, count) * (frequency < RATE / 2)
        phase = random.uniform(0, 2 * np.pi, count)
        sound += size[:, None] * np.sin(2 * np.pi * frequency[:, None] * time + phase[:, None])
    sound /= np.std(sound, axis=1, keepdims=True)
    noise = random.normal(size=(count, SAMPLES)) * _factors(random.uniform(0, 20, (count, 1)))
    hum = random.uniform(0, 0.7, (count, 1)) * np.sin(
        2 * np.pi * 50 * time + random.uniform(0, 2 * np.pi, (count, 1))
    )
    loudness = 0.3 * _factors(random.uniform(0, 30, (count, 1)))
    return ((sound + noise + hum) * loudness).astype(np.float32), notes.astype(np.int64)


def _factors(decibels: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the factors of amplitudes that many decibels lower."""
    return np.power(10.0, -decibels / 20)


def words(random: Random, count: int) -> tuple[Floats, Integers]:
    """
    Return `count` spectra of words, logarithms of the power of mel bands [N, 1, bands, frames], and
    the word of each [N].

    A word is a sequence of three sounds, each with three resonances. The speaker shifts resonances;
    the tempo, the loudness, the noise and the place in time are random.
    """
    sounds = np.random.default_rng(7)
    resonances = np.sort(sounds.uniform(2, MEL_BANDS - 4, (8, 3)), axis=1)
    sequences = np.array([sounds.permutation(8)[:3] for _ in range(WORDS)])
    labels = random.integers(WORDS, size=count)
    bands, frames = np.arange(MEL_BANDS), np.arange(FRAMES)
    power = np.zeros((count, MEL_BANDS, FRAMES))
    for n, label in enumerate(labels):
        length, start = random.uniform(24, 46), random.uniform(2, 16)
        at = np.clip((frames - start) / length, 0, 1) * 2
        speaker = random.normal(0, 1.2) + random.normal(0, 0.6, (3, 3))
        path = resonances[sequences[label]] + speaker
        loud = np.exp(-0.5 * ((at - 1) / 0.75) ** 2) * ((at > 0) & (at < 2))
        for resonance in range(3):
            center = np.interp(at, [0, 1, 2], path[:, resonance])
            peak = np.exp(-0.5 * ((bands[:, None] - center) / random.uniform(1.2, 2.2)) ** 2)
            power[n] += 0.4**resonance * peak * loud
        gain = 10 ** random.uniform(-1.5, 1.0)
        tilt = 10 ** (-bands[:, None] * random.uniform(0.02, 0.06))
        floor = 10 ** random.uniform(-3.5, -2.2) * random.exponential(1, (MEL_BANDS, FRAMES))
        flicker = random.exponential(1, (MEL_BANDS, FRAMES))
        power[n] = (power[n] * (0.5 + 0.5 * flicker) * gain + floor) * tilt
    spectra = np.log(power + 1e-6).astype(np.float32)
    return spectra[:, None], labels.astype(np.int64)
