"""Check passes that are tables of rules, and the measured benefit of each pass and rule."""

import pytest

from ceras_ir.driver.opt.modes import benefits
from ceras_ir.support.diagnostics import UsageError
from ceras_ir.transforms.graph.fuse import FusePass
from ceras_ir.transforms.pass_kinds import RulePass, flatten
from ceras_ir.transforms.quantization.keep_in_float import KeepInFloatPass
from ceras_ir.transforms.quantization.quantize import QuantizePass
from ceras_ir.transforms.quantization.snap_scales import SnapScalesPass
from ceras_ir.universe import CERAS_UNIVERSE, removed_passes

CHECKS = {"check-outputs", "check-scales", "prove-accumulators"}
"""Passes that do not change the module."""


def test_a_rule_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UsageError, match=r"'keep-in-float' has no rule 'mask'.*'masks'"):
        KeepInFloatPass(rules=("mask",))


def test_a_removed_name_names_a_pass_and_a_rule() -> None:
    for name, instead in removed_passes().items():
        assert name not in CERAS_UNIVERSE.all_passes
        if "{rules=" in instead:
            pass_, _, rule = instead.rpartition(" ")[2].removesuffix("}").partition("{rules=")
            cls = CERAS_UNIVERSE.all_passes[pass_]()
            assert issubclass(cls, RulePass)
            assert rule in [each.name for each in cls().table()], name


def test_few_passes_run() -> None:
    passes = [*flatten(FusePass()), *flatten(QuantizePass(target="vta"))]
    names = [each.name for each in passes]
    assert len(set(names)) == len(names) <= 33  # 35 with place and allocate-blocks


def test_each_pass_and_rule_has_a_measured_benefit() -> None:
    steps = set[str]()
    for each in (*flatten(FusePass()), *flatten(QuantizePass(target="vta")), SnapScalesPass()):
        steps.add(each.name)
        if isinstance(each, RulePass):
            chosen = (r.name for r in each.table() if not each.rules or r.name in each.rules)
            steps |= {f"{each.name}{{{rule}}}" for rule in chosen}
    measured = {step for step, benefit in benefits().items() if benefit.figure}
    assert steps - CHECKS - measured == set()
