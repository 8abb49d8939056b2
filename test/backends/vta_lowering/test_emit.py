"""The files of a compiled network match the manifest."""

import io
import json

import numpy as np
from backends.vta_lowering.layers import Layer, check_all_levels, random_array

from ceras_ir.backends.vta.emit import emit, pictures
from ceras_ir.backends.vta.machine.assembler import assemble_program
from ceras_ir.backends.vta.machine.encoding import encode


def test_files():
    rng = np.random.default_rng(0)
    layer = Layer(random_array(rng, (5, 20)), random_array(rng, (18, 20)))
    image = check_all_levels(layer.module(), layer.inputs, layer.expected())
    emission = emit(image.module, "tsim")
    files: dict[str, bytes] = {}
    for artefact in (*emission.artefacts, *pictures(image.module, "tsim")):
        artefact.write(stream := io.BytesIO())
        files[artefact.path] = stream.getvalue()
    drivers = {path for path in files if path.startswith("driver/")}
    assert "driver/vta_network.c" in drivers and "driver/ceras_vta.py" in drivers
    assert sorted(files.keys() - drivers) == [
        "dram.bin",
        "launch_0.insns",
        "launch_0.vtas",
        "timeline.json",
        "vta_config.json",
    ]
    assert files["dram.bin"] == image.dram().tobytes()
    assert json.loads(files["vta_config.json"]) == image.board.config()
    program = assemble_program(files["launch_0.vtas"].decode())
    assert encode(program.instructions, image.board) == files["launch_0.insns"]

    manifest = json.loads(json.dumps(emission.manifest["vta"]))
    assert manifest["dram"]["size"] == len(files["dram.bin"])
    (entry,) = manifest["launches"]
    assert entry["count"] * 16 == len(files["launch_0.insns"])
    packed = {r["name"]: r for r in manifest["regions"] if r["layout"] == "packed"}
    region = packed["graph.constant"]
    assert region["dtype"] in ("int8", "int32")
    assert all(r["offset"] + r["size"] <= len(files["dram.bin"]) for r in manifest["regions"])
