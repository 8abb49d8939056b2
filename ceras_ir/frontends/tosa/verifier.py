"""
Verify the text of a module before it is imported: names, types, signatures and attributes.

Each printed type is the type of the value, each operation has a known name, and the element types
follow the specification. Shapes of results are checked when the values are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from ceras_ir.frontends.tosa.operation import OPERATIONS, REFUSED
from ceras_ir.frontends.tosa.signatures import ELEMENTS, LIST, SIGNATURES, wrong_types
from ceras_ir.frontends.tosa.text.attributes import Elements, OtherType, TensorText, Type
from ceras_ir.frontends.tosa.text.reader import Argument, TextFunction, TextModule, TextOperation
from ceras_ir.support.diagnostics import Finding, InputError, did_you_mean

CONSTANTS = ("tosa.const", "tosa.const_shape", "arith.constant")
READS, WRITES = ("variable_read", "variable.read"), ("variable_write", "variable.write")

ATTRIBUTES = frozenset(
    (
        *("acc_type", "axis", "border", "dilation", "input_unsigned", "kernel", "local_bound"),
        *("max_fp", "max_int", "max_val", "min_fp", "min_int", "min_val", "mode", "multiplier"),
        *(
            "multiples",
            "nan_mode",
            "new_shape",
            "offset",
            "out_pad",
            "out_shape",
            "output_unsigned",
        ),
        *("pad", "pad_const", "padding", "per_channel", "perms", "quantization_info", "round"),
        *("rounding_mode", "scale", "scale32", "double_round", "shift", "size", "start", "stride"),
        *("table", "a_zp", "b_zp", "input_zp", "input1_zp", "output_zp", "weight_zp"),
    )
)
"""The attributes of all operations. Unknown names are ignored, misspelled names are refused."""

MIN_SIMILARITY = 0.8
"""The similarity from which an unknown name is a misspelled name."""


MAX_UNKNOWN = 100
"""The number of unknown names for which similar names are searched, which is slow."""


def verify(module: TextModule) -> None:
    """Raise an `InputError` for the first error in the functions of `module`."""
    names = _Names()
    for function in module.functions.values():
        if function.operations is not None:
            _Verifier(module, function, names).verify(function.operations)


class _Names:
    """The unknown names of operations and attributes, each with the suggestion of a known name."""

    def __init__(self) -> None:
        self._found: dict[str, str] = {}

    def suggestion(self, name: str, known: Iterable[str]) -> str:
        """Return the end of a message if `name` is a misspelled name of `known`, else ""."""
        if name not in self._found:
            if len(self._found) >= MAX_UNKNOWN:
                return ""
            self._found[name] = did_you_mean(name, known, MIN_SIMILARITY)
        return self._found[name]


@dataclass
class _Verifier:
    module: TextModule
    function: TextFunction
    names: _Names
    types: dict[str, Type] = field(default_factory=dict[str, Type])
    """The types of the values that are defined, by name."""

    def verify(self, operations: Sequence[TextOperation]) -> None:
        for argument in self.function.arguments:
            if argument.name in self.types:
                first = operations[0]
                raise self._wrong(first, f"the argument {argument.name} is defined twice")
            self.types[argument.name] = argument.type
        for op in operations:
            for name, printed in zip(op.operands, op.operand_types, strict=True):
                if (known := self.types.get(name)) is None:
                    raise self._wrong(op, f"{name} is used before it is defined")
                if printed != known:
                    raise self._wrong(op, f"{name} has the type {known}, but {printed} is printed")
            self._check(op)
            for name, kind in zip(op.results, op.result_types, strict=False):
                if name in self.types:
                    raise self._wrong(op, f"{name} is defined twice")
                self.types[name] = kind

    def _wrong(self, op: TextOperation, message: str) -> InputError:
        label = self.module.location_name(op.location) or op.name.rpartition(".")[2]
        return InputError([Finding(f"{label} at {op.line}:{op.column}", op.name, message)])

    def _check(self, op: TextOperation) -> None:
        name = op.name.removeprefix("tosa.")
        if op.name == "func.return":
            results = self.function.results
            self._expect(op, op.operand_types, results, f"results of @{self.function.name}")
        elif op.name == "func.call":
            self._check_call(op)
        elif op.name in CONSTANTS:
            self._check_constant(op)
        elif op.name.startswith("tosa."):
            if name in (*READS, *WRITES):
                self._check_variable(op, op.operand_types if name in WRITES else op.result_types)
                return
            if name not in OPERATIONS and name not in REFUSED:
                if near := self.names.suggestion(name, (*OPERATIONS, *REFUSED)):
                    raise self._wrong(op, f"tosa has no operation '{name}'{near}")
            elif name in SIGNATURES:
                self._check_attributes(op)
                self._check_elements(op, name)

    def _expect(
        self, op: TextOperation, given: Sequence[Type], expected: Sequence[Argument], what: str
    ) -> None:
        """Raise an error unless the types `given` are those of `expected`, the `what`."""
        types = [each.type for each in expected]
        if list(given) != types:
            shown, declared = (", ".join(map(str, each)) or "none" for each in (given, types))
            raise self._wrong(op, f"the types are {shown}, but the {what} are {declared}")

    def _check_call(self, op: TextOperation) -> None:
        callee = str(op.attributes.get("callee", "")).removeprefix("@")
        function = self.module.functions.get(callee)
        if function is None or function.operations is None:
            near = did_you_mean(callee, self.module.functions)
            raise self._wrong(op, f"there is no function @{callee} with a body{near}")
        self._expect(op, op.operand_types, function.arguments, f"arguments of @{callee}")
        self._expect(op, op.result_types, function.results, f"results of @{callee}")

    def _check_variable(self, op: TextOperation, types: Sequence[Type]) -> None:
        name = str(op.attributes.get("callee") or op.attributes.get("name")).removeprefix("@")
        variable = self.module.variables.get(name)
        if variable is None:
            near = did_you_mean(name, self.module.variables)
            raise self._wrong(op, f"there is no variable '{name}'{near}")
        known = variable.attributes.get("type")
        if isinstance(known, TensorText) and list(types) != [known]:
            shown = ", ".join(map(str, types))
            raise self._wrong(op, f"the variable '{name}' has the type {known}, not {shown}")

    def _check_constant(self, op: TextOperation) -> None:
        value = op.attributes.get("values", op.attributes.get("value"))
        kind = op.result_types[0] if op.result_types else None
        if not isinstance(value, Elements):
            return
        shape = value.type.shape
        if isinstance(kind, OtherType) and kind.rank is not None:
            if shape is None or prod(shape) != kind.rank:
                raise self._wrong(op, f"a constant of type {value.type} for the type {kind}")
        elif kind != value.type:
            raise self._wrong(op, f"a constant of type {value.type} for the type {kind}")

    def _check_attributes(self, op: TextOperation) -> None:
        for name in op.attributes:
            if name in ATTRIBUTES or "." in name:
                continue
            if near := self.names.suggestion(name, ATTRIBUTES):
                raise self._wrong(op, f"has no attribute '{name}'{near}")

    def _check_elements(self, op: TextOperation, name: str) -> None:
        """
        Raise an error for element types that the operation does not have. Elements that are not
        imported are refused later, with a remedy.
        """
        operands = [_element(kind) for kind in op.operand_types]
        results = [_element(kind) for kind in op.result_types]
        if len(results) != 1:
            raise self._wrong(op, f"has {len(results)} results, expected 1")
        if any(each not in (*ELEMENTS, LIST) for each in (*operands, *results)):
            return
        accumulator = op.attributes.get("acc_type")
        shown = None if accumulator is None else str(accumulator)
        if message := wrong_types(name, operands, results[0], shown):
            raise self._wrong(op, message)


def _element(kind: Type) -> str:
    if isinstance(kind, TensorText):
        return kind.element
    return LIST if kind.rank is not None or str(kind).startswith("!tosa.shape") else str(kind)
