"""
List parameters of the cycle model of VTA's HLS source that agree with all times that paper S3
measured on a ZCU102 (`docs/papers.md`, S3: Table 2 and Figure 10). The first model agrees best; the
measurements do not distinguish further.

Printed by `benchmarks/vta_hls_fit.py --write`, which explains the method.
"""

from ceras_ir.backends.vta.machine.board import HlsModel

MODELS: tuple[HlsModel, ...] = (
    HlsModel(25, 30, 8, 10),
    HlsModel(2, 60, 16, 0),
    HlsModel(6, 20, 16, 40),
    HlsModel(2, 30, 8, 0),
    HlsModel(25, 50, 16, 5),
    HlsModel(3, 20, 8, 30),
    HlsModel(2, 40, 16, 20),
    HlsModel(4, 50, 8, 5),
    HlsModel(15, 30, 16, 15),
    HlsModel(6, 60, 16, 10),
    HlsModel(15, 40, 16, 0),
    HlsModel(25, 40, 8, 0),
    HlsModel(6, 60, 8, 0),
    HlsModel(15, 20, 8, 20),
    HlsModel(6, 30, 8, 20),
    HlsModel(8, 40, 16, 5),
)
