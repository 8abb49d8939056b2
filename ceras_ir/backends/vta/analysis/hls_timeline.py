"""The timeline of one schedule with the cycles of VTA's HLS source, for one of its models."""

from dataclasses import dataclass

from ceras_ir.backends.vta.analysis.blocks import Schedules
from ceras_ir.backends.vta.analysis.hls_cost import alu_passes
from ceras_ir.backends.vta.analysis.hls_lists import list_lengths
from ceras_ir.backends.vta.analysis.tile_timeline import Walk
from ceras_ir.backends.vta.board import VtaBoard
from ceras_ir.backends.vta.hls_timing import ALU_INTERVAL, HlsTiming


@dataclass
class HlsWalk(Walk):
    """The same loops; entries of lists, and rows of transfers, take what they take there."""

    product_list: int = 1
    alu_list: int = 1

    def measure_lists(self, board: VtaBoard) -> "HlsWalk":
        """With the lists that the schedule's kernel will have."""
        lengths = list_lengths(Schedules.single(self.c, self.b), board)
        self.product_list, self.alu_list = (int(length[0]) for length in lengths)
        return self

    @property
    def model(self) -> HlsTiming:
        assert isinstance(self.timing, HlsTiming)
        return self.timing

    def products(self, count: int, instructions: int) -> float:
        model = self.model.model
        length = self.product_list if count > self.b.nblock * self.b.positions else self.alu_list
        entries = instructions * -(-count // (length * instructions))
        return count + entries * model.refill + instructions * model.instruction

    def epilogue(self, count: int) -> float:
        return alu_passes(self.c) * self.combined(count * self.b.positions // self.c.merged)

    def combined(self, count: int) -> float:
        model = self.model.model
        entries = -(-count // min(self.alu_list, count))
        return ALU_INTERVAL * count + entries * model.refill + model.instruction

    def weights(self, nblock: int, kblock: int) -> float:
        model, loads = self.model.model, self.weight_loads
        rows = 1 if kblock >= self.c.kblocks else nblock // loads
        beats = nblock * kblock * self.c.taps * self.wgt_beats
        return loads * (model.instruction + rows * model.latency) + beats

    def inputs(self, kblock: int) -> float:
        c, b, model = self.c, self.b, self.model.model
        rows, columns = c.window(b.rows, b.columns)
        whole = b.columns == c.columns and not any(c.padding)
        beats = kblock * rows * columns * self.inp_beats
        if c.is_flat:
            return model.instruction + (1 if whole else kblock) * model.latency + beats
        each = 1 if whole else rows
        return kblock * (model.instruction + each * model.latency) + beats

    def stored(self, count: int) -> float:
        b, model = self.b, self.model.model
        rows = 1 if b.columns == self.c.columns else b.rows
        beats = count * b.positions // self.c.merged * self.inp_beats
        if self.c.is_flat:
            rows = 1 if rows == 1 else count
            return model.instruction + rows * model.latency + beats
        return count * (model.instruction + rows * model.latency) + beats
