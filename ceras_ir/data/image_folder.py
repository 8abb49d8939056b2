"""
Read single samples from a folder of images, `DIR/?size=32x32&mean=0.5&...`, or from an image.

Each pixel becomes `(value / scale - mean) / std`. Pillow decodes the files and is imported only for
a folder.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ceras_ir.data.image_options import ImageOptions
from ceras_ir.network.artefacts import TensorInfo
from ceras_ir.support.diagnostics import InputError, UsageError, remark
from ceras_ir.support.extras import install_command
from ceras_ir.support.user_files import regular

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = frozenset((".bmp", ".gif", ".jpeg", ".jpg", ".png", ".ppm", ".tif", ".tiff", ".webp"))


def is_images(path: str) -> bool:
    """
    Return whether `path`, with options after a `?`, is a folder or an image file, so that the
    samples are images.
    """
    place = Path(path.partition("?")[0])
    return place.is_dir() or (place.suffix.lower() in SUFFIXES and place.is_file())


def image_files(path: str) -> list[Path]:
    """
    Return the images in a folder and the subfolders, sorted by path, or the single image at `path`.
    """
    place = Path(path.partition("?")[0])
    found = [place] if place.is_file() else place.rglob("*")
    return sorted(file for file in found if file.suffix.lower() in SUFFIXES)


def image_names(path: str) -> list[str]:
    """Return the names of `image_files`, relative to the folder, as in `cats/1.png`."""
    place = Path(path.partition("?")[0])
    top = place.parent if place.is_file() else place
    return [file.relative_to(top).as_posix() for file in image_files(path)]


def is_planar(shape: Sequence[int]) -> bool:
    """
    Return whether an image input of rank 4 has the layout NCHW, with 1 or 3 channels on axis 1, and
    not NHWC. If both fit, or neither, it is NCHW.
    """
    return shape[1] in (1, 3) or shape[3] not in (1, 3)


def image_size(shapes: Sequence[Sequence[int]]) -> tuple[int, int] | None:
    """
    Return the height and width of the images that a network accepts, from the shapes of all the
    inputs. Return `None` if there are several inputs, or an input that does not have rank 4.
    """
    if len(shapes) != 1 or len(shapes[0]) != 4:
        return None
    _, *rest = shapes[0]
    height, width = rest[1:] if is_planar(shapes[0]) else rest[:2]
    return height, width


class ImageReader:
    """
    A converter of images to arrays for the input of a network: it decodes, resizes, and applies
    `ImageOptions`.
    """

    def __init__(self, path: str, inputs: Sequence[TensorInfo]):
        folder, _, options = path.partition("?")
        self.folder, self.options = folder, ImageOptions.parse(options)
        if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].shape[0] != 1:
            shapes = ", ".join(f"{t.name} {list(t.shape)}" for t in inputs)
            raise InputError(
                f"images require a single input of shape [1, C, H, W] or [1, H, W, C], got "
                f"{shapes}; use an .npz file",
                folder,
            )
        (self.input,) = inputs
        layout = self.options.layout
        self.planar = is_planar(self.input.shape) if layout == "auto" else layout == "nchw"
        self.warned = False
        self.frame = self.input.pixels.frame if self.input.pixels is not None else None
        if self.frame is None:
            _, *rest = self.input.shape
            self.depth, self.height, self.width = rest if self.planar else (rest[2], *rest[:2])
        else:
            self.planar, self.depth = False, self.frame.depth
            self.height, self.width = self.frame.size
        if self.depth not in (1, 3):
            raise InputError(
                f"images have 1 or 3 channels, but '{self.input.name}' has {self.depth}", folder
            )
        for name in ("mean", "std"):
            count = len(getattr(self.options, name))
            if count not in (1, self.depth):
                raise UsageError(f"--image-{name} has {count} values for {self.depth} channels")
        if self.options.size is not None and self.options.size != (self.height, self.width):
            larger = self.options.size[0] >= self.height and self.options.size[1] >= self.width
            if self.options.fit != "crop" or not larger:
                raise UsageError(
                    f"--image-size {self.options.size[0]}x{self.options.size[1]}, but the input is "
                    f"{self.height}x{self.width}: use --image-fit crop and a larger size"
                )

    def read(self, file: Path | IO[bytes], name: str | None = None) -> NDArray[np.generic]:
        """
        Return the image in `file` as an array of the shape and type of the input. Errors call the
        image `name`, by default the path.
        """
        with self._upright(file, name) as image:
            self._check_orientation(image, name or str(file))
            pixels = self._fitted(image.convert("RGB" if self.depth == 3 else "L"))
        if self.options.channels == "bgr":
            pixels = pixels[:, :, ::-1]
        mean, std = (np.array(v, np.float32) for v in (self.options.mean, self.options.std))
        values = (pixels / np.float32(self.options.divisor(self.input.dtype)) - mean) / std
        array = values.transpose(2, 0, 1)[None] if self.planar else values[None]
        dtype = np.dtype(self.input.dtype)
        if dtype.kind in "iu":
            bounds = np.iinfo(dtype.name)
            array = np.clip(np.rint(array), bounds.min, bounds.max).astype(dtype)
            return array if self.frame is None else self.frame.of_colors(array[0])
        return np.ascontiguousarray(array, np.float32)

    @contextmanager
    def _upright(self, file: Path | IO[bytes], name: str | None = None) -> Generator[Image]:
        # Rotated as the camera's orientation tag specifies.
        try:
            from PIL import Image, ImageOps, UnidentifiedImageError
        except ImportError:
            raise InputError(
                f"reading images needs Pillow: {install_command('images')}", self.folder
            ) from None
        try:
            with Image.open(regular(file) if isinstance(file, Path) else file) as opened:
                yield ImageOps.exif_transpose(opened)
        except (OSError, ValueError, UnidentifiedImageError, Image.DecompressionBombError) as error:
            reason = str(error).splitlines()[0] if str(error) else "damaged"
            raise InputError(f"not a readable image: {reason}", name or str(file)) from None

    def _check_orientation(self, image: Image, name: str) -> None:
        """
        Warn a single time if an image has the height of the frames as width and their width as
        height, because the user probably exchanged the numbers of `--frame-size`.
        """
        if self.frame is None or self.warned or image.width == image.height:
            return
        if (image.width, image.height) == self.frame.size:
            self.warned = True
            height, width = self.frame.size
            remark(
                f"warning: '{name}' is {image.width} pixels wide and {image.height} high, but "
                f"frames have height {height} and width {width}: exchange the numbers of "
                "--frame-size if it was meant as WxH"
            )

    def placement(self, file: Path) -> tuple[float, float, float, float]:
        """
        Return (fx, fy, dx, dy): the pixel (x, y) of the image is at (fx * x + dx, fy * y + dy) in
        the input of the network. Boxes of object detection are converted with it.
        """
        with self._upright(file) as image:
            width, height = self._resized(image)
            factors = width / image.width, height / image.height
        if self.options.fit != "crop":
            return *factors, 0.0, 0.0
        return *factors, -float((width - self.width) // 2), -float((height - self.height) // 2)

    def _resized(self, image: Image) -> tuple[int, int]:
        # Width and height before the image is cropped or padded.
        if self.options.fit == "stretch":
            return self.width, self.height
        goal = self.options.size or (self.height, self.width)
        ratios = goal[0] / image.height, goal[1] / image.width
        ratio = max(ratios) if self.options.fit == "crop" else min(ratios)
        return max(round(image.width * ratio), 1), max(round(image.height * ratio), 1)

    def _fitted(self, image: Image) -> NDArray[np.float32]:
        height, width = self.height, self.width
        resized = image.resize(self._resized(image))
        if self.options.fit == "stretch":
            return self._pixels(resized)
        if self.options.fit == "crop":
            left, top = (resized.width - width) // 2, (resized.height - height) // 2
            return self._pixels(resized.crop((left, top, left + width, top + height)))
        # Letterbox: the image is in the upper left corner, as in object detectors.
        result = np.full((height, width, self.depth), self.options.pad, np.float32)
        pixels = self._pixels(resized)
        result[: pixels.shape[0], : pixels.shape[1]] = pixels[:height, :width]
        return result

    def _pixels(self, image: Image) -> NDArray[np.float32]:
        return np.asarray(image, np.float32).reshape(image.height, image.width, self.depth)


class ImageFolder(ImageReader):
    """The images in a folder and the subfolders, sorted by path, or a single image, as samples."""

    def __init__(self, path: str, inputs: Sequence[TensorInfo]):
        folder, _, options = path.partition("?")
        ImageOptions.parse(options)  # Errors in the options are reported before missing images.
        self.files = image_files(path)
        if not self.files:
            raise InputError(f"no images in the folder ({', '.join(sorted(SUFFIXES))})", folder)
        super().__init__(path, inputs)

    def __len__(self) -> int:
        return len(self.files)

    @property
    def names(self) -> list[str]:
        """The names of the images, relative to the folder, as in `cats/1.png`."""
        return image_names(self.folder)

    def samples(self, limit: int) -> Iterator[dict[str, NDArray[np.generic]]]:
        """
        Yield the first `limit` images as samples: a dictionary from the name of the input to the
        array.
        """
        for file in self.files[:limit]:
            yield {self.input.name: self.read(file)}
