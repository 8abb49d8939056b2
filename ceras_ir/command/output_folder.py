"""
A folder of artefacts that is there completely or not at all.

Everything is written into a hidden folder beside the destination; only when all of it is
complete do files move into place. Files in the destination that are not ours stay.
"""

import os
import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ceras_ir.network.artefacts import Artefact
from ceras_ir.support.diagnostics import InputError


@contextmanager
def open_folder(path: str) -> Generator[Path]:
    """A temporary folder whose content becomes that of `path` when the block ends well."""
    destination = Path(path).resolve()
    if destination.exists() and not destination.is_dir():
        raise InputError("is a file, and a folder is needed for the output", path)
    staging = destination.parent / f".{destination.name}.{os.getpid()}.partial"
    try:
        staging.mkdir(parents=True)
        yield staging
        destination.mkdir(parents=True, exist_ok=True)
        for file in sorted(staging.rglob("*")):
            target = destination / file.relative_to(staging)
            if file.is_dir():
                target.mkdir(exist_ok=True)
            else:
                os.replace(file, target)
    except OSError as error:
        raise InputError(f"cannot write: {error.strerror}", path) from None
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def write_artefacts(folder: Path, artefacts: Sequence[Artefact]) -> None:
    """Write every artefact below `folder`."""
    for artefact in artefacts:
        path = folder / artefact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(path, "wb") as stream:
            artefact.write(stream)
