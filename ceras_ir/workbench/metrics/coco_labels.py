"""True boxes in a file of COCO's format: images, categories, annotations."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from xdsl.utils.hints import isa

from ceras_ir.data.image_folder import ImageFolder
from ceras_ir.support.diagnostics import InputError

Entry = dict[str, object]
Placement = tuple[float, float, float, float]
"""Pixels of an image become those of the input: factors of x and y, then what is added."""

KEYS = {
    "images": ("id", "file_name"),
    "categories": ("id",),
    "annotations": ("image_id", "category_id", "bbox"),
}
"""What is read of each table."""


class CocoLabels:
    """The boxes of samples, in pixels of the network's input."""

    def __init__(self, path: str):
        self.path = path
        tables = _tables(path)
        self._images = tables["images"]
        self._categories = sorted(_whole(c["id"], "category", path) for c in tables["categories"])
        self._rows: dict[object, list[tuple[float, ...]]] = {}
        for annotation in tables["annotations"]:
            row = self._row(annotation)
            self._rows.setdefault(annotation["image_id"], []).append(row)
        self._samples: list[tuple[object, Placement]] = []

    def _row(self, annotation: Entry) -> tuple[float, ...]:
        """Left, top, right, bottom in pixels of the image, category, whether it is a crowd."""
        box, crowd = annotation["bbox"], annotation.get("iscrowd", 0)
        if not isa(box, list[float | int]) or len(box) != 4 or not np.isfinite(box).all():
            raise InputError(f"bbox must be four numbers, got {box}", self.path)
        category = _whole(annotation["category_id"], "category", self.path)
        if category not in self._categories:
            raise InputError(f"an annotation has the unknown category {category}", self.path)
        left, top, width, height = box
        return left, top, left + width, top + height, category, float(crowd == 1)

    def of_folder(self, folder: ImageFolder) -> None:
        """Samples are the images of a folder: their names say which."""
        known = {str(image["file_name"]): image["id"] for image in self._images}
        for file in folder.files:
            names = (file.relative_to(folder.folder).as_posix(), file.name)
            found = [known[name] for name in names if name in known]
            if not found:
                raise InputError(f"has no image '{names[0]}' of {folder.folder}", self.path)
            self._samples.append((found[0], folder.placement(file)))

    def of_arrays(self, count: int, size: tuple[int, int]) -> None:
        """Samples are the images in their order, which have the size of the input."""
        if len(self._images) != count:
            raise InputError(f"there are {len(self._images)} images for {count} samples", self.path)
        for image in self._images:
            if (image.get("height"), image.get("width")) != size:
                raise InputError(
                    f"image {image['id']} is not {size[0]}x{size[1]} as the input: boxes of "
                    "samples in .npz files are in its pixels; give a folder of images",
                    self.path,
                )
            self._samples.append((image["id"], (1.0, 1.0, 0.0, 0.0)))

    def boxes(self, classes: int) -> list[NDArray[np.float64]]:
        """Of each sample [objects, 6]: left, top, right, bottom, class, whether it is a crowd."""
        first = self._first_category(classes)
        found: list[NDArray[np.float64]] = []
        for image, (x, y, left, top) in self._samples:
            table = np.array(self._rows.get(image, []), np.float64).reshape(-1, 6)
            table[:, :4] = table[:, :4] * (x, y, x, y) + (left, top, left, top)
            if first is None:
                table[:, 4] = np.searchsorted(self._categories, table[:, 4])
            else:
                table[:, 4] -= first
            found.append(table)
        return found

    def _first_category(self, classes: int) -> int | None:
        """The category of class 0 where numbers count, gaps included; None if order does."""
        highest = self._categories[-1]
        if classes == len(self._categories):
            return None
        if classes in (highest, highest + 1):
            return highest + 1 - classes
        raise InputError(
            f"has {len(self._categories)} categories, and the network {classes} classes", self.path
        )


def _whole(value: object, what: str, path: str) -> int:
    if not isinstance(value, int):
        raise InputError(f"numbers of a {what} are whole, got {value}", path)
    return value


def _tables(path: str) -> dict[str, Sequence[Entry]]:
    try:
        content: object = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(error.strerror or str(error), path) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", path) from None
    found: dict[str, Sequence[Entry]] = {}
    for table, keys in KEYS.items():
        rows = content.get(table) if isa(content, Entry) else None
        if not isa(rows, list[Entry]) or not all(k in row for row in rows for k in keys):
            raise InputError(f"not COCO's format: '{table}' must list {', '.join(keys)}", path)
        found[table] = rows
    if not found["categories"]:
        raise InputError("has no categories", path)
    return found
