"""Record what the values of a float network were on sample data."""

from dataclasses import dataclass, replace

from xdsl.dialects.func import FuncOp
from xdsl.ir import SSAValue

from ceras_ir.network.function import module_of
from ceras_ir.network.integer import fitting_exponent
from ceras_ir.network.quantizable import observed_values
from ceras_ir.network.storage import exponent, interval, set_exponent
from ceras_ir.support.diagnostics import InputError, UsageError, remark
from ceras_ir.support.options import out_of_range
from ceras_ir.transforms.float_network_pass import FloatNetworkPass
from ceras_ir.transforms.quantization.options import ObserverOptions, SampleOptions

SYNTHETIC_SAMPLES = 6
"""Made-up samples say little, so that more of them would only take longer."""

UNFIT = (
    "the result is not finite on synthetic samples, which the network was not made for; give "
    "calibration data"
)


@dataclass(frozen=True)
class ObserveRangesPass(ObserverOptions, SampleOptions, FloatNetworkPass):
    """
    Record `graph.range` and `graph.exponent` of every value of a float network. The range is the
    least and greatest element. The exponent is the power of two of the step in which the value is
    stored. Where a zero point would take a tenth of the error or more, `graph.affine` is the best
    exponent and zero point.

    Errors are squared, of everything seen. Those of clipping count more: where a map is clipped
    neighbours are clipped to the same side, and such errors add up, where those of rounding cancel.
    They count as often as the root of the map's side says, 4 times from 16x16 positions on, and
    once in a vector. What one function alone reads, as SiLU its sum of products, is judged behind
    that function, channel by channel.

    Ranges come from these sources, in this order:

    1. the samples of `calibration`, read one at a time;
    2. ranges that the IR already holds;
    3. synthetic samples of `graph.input_range` of the inputs, default [0, 1]. A note on stderr says
       so.

    Changes no value. A quantized network is left alone.
    """

    name = "observe-ranges"

    def __post_init__(self) -> None:
        for name, limit in out_of_range(self):
            raise UsageError(f"option '{name}' of pass '{self.name}' {limit}")
        if self.seed < 0:
            raise UsageError(f"option 'seed' of pass '{self.name}' must not be negative")

    def change(self, main: FuncOp) -> None:
        if self.calibration is not None:
            self._from_file(main, self.calibration)
        else:
            self._from_ir(main)

    def _from_file(self, main: FuncOp, path: str) -> None:
        from ceras_ir.transforms.quantization.analysis.calibration import record
        from ceras_ir.transforms.quantization.analysis.shared_calibration import observe_data

        try:
            values = list(observed_values(main))
            limit, draw = self.samples, self.draw
            found = observe_data(module_of(main), path, limit, draw, values, self.observer)
            doubt = record(main, values, found, self.observer)
        except InputError as error:
            error.file = error.file or path
            raise
        if doubt is not None:
            remark(f"{self.name}: warning: {doubt}")

    def _from_ir(self, main: FuncOp) -> None:
        missing = list[SSAValue]()
        for value in observed_values(main):
            known = interval(value)
            if exponent(value) is not None:
                continue
            if known is None:
                missing.append(value)
            else:
                set_exponent(value, fitting_exponent(max(-known[0], known[1])))
        if missing:
            self._synthetic(main, missing)

    def _synthetic(self, main: FuncOp, missing: list[SSAValue]) -> None:
        # The interpreter is loaded only when something runs.
        from ceras_ir.data.synthetic_samples import synthetic_samples
        from ceras_ir.interpreters.network import with_states
        from ceras_ir.support.terminal import progress
        from ceras_ir.transforms.quantization.analysis.calibration import calibrate

        count = min(self.samples, SYNTHETIC_SAMPLES)
        remark(
            f"{self.name}: note: no calibration data for {len(missing)} values; their ranges "
            f"come from {count} synthetic samples (seed {self.seed}) of the declared input "
            "range; give data for real ones (--calibrate FILE.npz)"
        )
        samples = synthetic_samples(main, count, self.seed)
        # Made-up samples have no rare extremes.
        observer = "mse" if self.observer == "auto" else self.observer
        module = module_of(main)
        steps = with_states(module, progress(samples, "calibrating"))
        try:
            calibrate(module, steps, missing, observer)
        except InputError as error:
            raise InputError([replace(f, message=UNFIT) for f in error.findings]) from None
