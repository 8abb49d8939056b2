"""
Store the results of the TOSA reference model for the networks of `tosa_cases.py`.

    python test/frontends/tosa/golden.py [ENVIRONMENT]

writes `golden.npz` in this folder. ENVIRONMENT is a folder with the package tosa-tools, which has
the reference model and `tosa-opt`: python -m venv tosa; tosa/bin/pip install tosa-tools. The texts
pass `tosa-opt --tosa-validate` first.
"""

import subprocess
import sys
import tempfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

FOLDER = Path(__file__).parent
GOLDEN = FOLDER / "golden.npz"

TARGET = (
    "profiles=pro_int,pro_fp extensions=int16,int4,doubleround,variable "
    "specification_version=1.1.draft level=none"
)


def results(
    environment: Path, text: str, inputs: Mapping[str, NDArray[np.generic]]
) -> list[NDArray[np.generic]]:
    """
    Run a text in the reference model, and return the results. Raise a `ValueError` if TOSA does not
    define the results.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        (place / "case.mlir").write_text(text)
        subprocess.run(
            [
                *(str(environment / "bin" / "tosa-opt"), "case.mlir", "-o", "out.mlir"),
                *(f"--tosa-attach-target={TARGET}", "--tosa-validate", "--tosa-serialize"),
                "--tosa-flatbuffer-filename=case.tosa",
            ],
            cwd=folder,
            check=True,
        )
        for i, array in enumerate(inputs.values()):
            np.save(place / f"in{i}.npy", array)
        header = text[text.index("->") : text.index("{\n    ")]
        outputs = range(header.count("tensor<"))
        names = ",".join(f"TosaInput_{i}" for i in range(len(inputs)))
        found = subprocess.run(
            [
                *(str(environment / "bin" / "tosa_reference_model"), "--tosa_file=case.tosa"),
                *("--flatbuffer_dir=.", "--output_dir=.", "--tosa_level=NONE"),
                *(f"--ifm_name={names}", f"--ofm_name={_listed('TosaOutput_{}', outputs)}"),
                f"--ifm_file={','.join(f'in{i}.npy' for i in range(len(inputs)))}",
                f"--ofm_file={_listed('out{}.npy', outputs)}",
            ],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        if found.returncode:
            raise ValueError(f"the reference model refuses: {(found.stdout + found.stderr)[-400:]}")
        return [np.load(place / f"out{i}.npy") for i in outputs]


def _listed(form: str, indices: range) -> str:
    return ",".join(form.format(i) for i in indices)


def main() -> None:
    sys.path[:0] = [str(FOLDER.parents[1]), str(FOLDER.parents[2])]
    from tosa_cases import CASES, build

    environment = Path(sys.argv[1] if len(sys.argv) > 1 else sys.prefix)
    arrays: dict[str, NDArray[np.generic]] = {}
    for name in CASES:
        text, inputs = build(name)
        data = b"".join(array.tobytes() for array in inputs.values())
        arrays[f"{name}|crc"] = np.array(zlib.crc32(text.encode(), zlib.crc32(data)), np.uint32)
        for i, array in enumerate(results(environment, text, inputs)):
            arrays[f"{name}|{i}"] = array
    np.savez_compressed(GOLDEN, allow_pickle=False, **arrays)
    print(f"{len(CASES)} networks, {GOLDEN.stat().st_size} bytes")


if __name__ == "__main__":
    main()
