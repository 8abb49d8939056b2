"""
Load inputs and labels: `.npz` files, or folders of images and of labels.

Without `--labels`, a folder can contain the folders `images` and `labels`. A label image has the
name of the input image and contains the class of each pixel. It is resized to the input size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.array_archive import load_arrays
from ceras_ir.data.image_folder import SUFFIXES, ImageFolder, is_images
from ceras_ir.data.sample_stream import open_samples
from ceras_ir.data.samples import require_finite
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError
from ceras_ir.support.user_files import regular

Array = NDArray[np.generic]


@dataclass(frozen=True)
class Examples:
    """
    Training data: an array for each graph input, with samples along the first axis, and labels, if
    any.
    """

    inputs: list[Array]
    labels: Array | None

    def __len__(self) -> int:
        return len(self.inputs[0])


def load_examples(path: str, labels: str | None, network: Sequence[TensorInfo]) -> Examples:
    """
    Load the samples of the file or folder `path`, and check them against the inputs `network`.
    Labels are read from the file or folder `labels` or, by default, from the folder `labels` next
    to `images`.
    """
    folder, _, options = path.partition("?")
    if is_images(path) and labels is None and (Path(folder) / "images").is_dir():
        below = Path(folder) / "labels"
        labels = str(below) if below.is_dir() else None
        path = f"{Path(folder) / 'images'}?{options}" if options else str(Path(folder) / "images")
    samples = list(open_samples(path, network))
    require_finite(samples, path)
    inputs = [np.stack([sample[t.name] for sample in samples]) for t in network]
    if labels is None:
        return Examples(inputs, None)
    found = _images(labels, path, network) if Path(labels).is_dir() else _file(labels)
    if len(found) != len(samples):
        raise InputError(f"there are {len(found)} labels for {len(samples)} samples", labels)
    return Examples(inputs, found)


def _file(path: str) -> Array:
    arrays = load_arrays(path)
    name = "labels" if "labels" in arrays else next(iter(arrays), "")
    if name not in arrays or (len(arrays) > 1 and name != "labels"):
        raise InputError(
            f"expected a single array or an array 'labels', got {', '.join(arrays) or 'no array'}",
            path,
        )
    labels = arrays[name]
    if labels.dtype.kind in "iu" and labels.ndim in (1, 3):
        return labels.astype(np.int64)
    if labels.dtype.kind == "f" and labels.ndim:
        return labels.astype(np.float32)
    raise InputError(
        "labels must be integers of shape [N] or [N, H, W], or floats, got "
        f"{labels.dtype}{list(labels.shape)}",
        path,
    )


def _images(folder: str, images: str, network: Sequence[TensorInfo]) -> Array:
    if not is_images(images):
        raise InputError("a folder of labels requires a folder of images", folder)
    source = ImageFolder(images, network)
    masks = [p for p in Path(folder).rglob("*") if p.suffix.lower() in SUFFIXES]
    files = {_key(path.relative_to(folder)): path for path in masks}
    keys = [_key(PurePath(name)) for name in source.names]
    if missing := [key for key in keys if key not in files]:
        raise InputError(f"no labels for image '{missing[0]}'", folder)
    size = source.width, source.height
    return np.stack([_classes(files[key], size) for key in keys])


def _key(path: PurePath) -> str:
    return path.with_suffix("").as_posix()


def _classes(path: Path, size: tuple[int, int]) -> NDArray[np.int64]:
    # `ImageFolder` has already refused a missing Pillow.
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(regular(path)) as image:
            if image.mode not in ("L", "P", "I", "I;16", "1"):
                raise InputError(f"labels must have a single channel, got {image.mode}", str(path))
            return np.asarray(image.resize(size, Image.Resampling.NEAREST)).astype(np.int64)
    except (OSError, ValueError, UnidentifiedImageError) as error:
        raise InputError(f"not a readable image: {error}", str(path)) from None
