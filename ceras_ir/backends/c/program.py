"""
The network as the C printer sees it: layers in order, and the place of every value and workspace.

The workspace of a layer lies in bytes of the arena that hold nothing while the layer runs, as low
as possible. It lies behind the plan only if no gap is wide enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.backends.c.values import value_type
from ceras_ir.dialects.graph import ConcatOp, ConstantOp
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.mem import LaunchOp, arena_of, block_of, regions_of
from ceras_ir.network.artefacts import TensorInfo, network_inputs, network_outputs
from ceras_ir.network.function import State, main_function, result_values, states_of
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, node_name
from ceras_ir.transforms.memory.liveness import byte_size, steps
from ceras_ir.transforms.memory.offsets import aligned
from ceras_ir.transforms.memory.regions import refuse_regions
from ceras_ir.transforms.memory.slices import element_bytes, may_overwrite, refuse_gaps, slices


@dataclass(frozen=True)
class Arena:
    """Bytes from `offset` of the arena, or of one of the memories that it is made of."""

    offset: int
    region: str = ""


@dataclass(frozen=True)
class Input:
    """The caller's input buffer."""

    index: int


@dataclass(frozen=True)
class Output:
    """The caller's output buffer."""

    index: int


@dataclass(frozen=True)
class Kept:
    """Bytes that stay from run to run, from `offset` behind everything else in their memory."""

    offset: int


Place = Arena | Input | Output | Kept


@dataclass
class KeptState:
    """One state of the network, and where it stays."""

    state: State
    place: Kept
    next: Kept | None = None
    """Where the next one is until the end of the run, if not in its place."""
    is_copied: bool = False
    """Whether the next one has to be copied into its place at all."""


STATE_ALIGNMENT = 16
"""Of each state, for vectors."""


@dataclass
class Program:
    """`main`, or what it calls, its steps, and where everything but constants lives."""

    main: FuncOp
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    steps: list[Operation]
    """Everything but constants and the return, in order: the index is what tracing reports."""
    launches: list[LaunchOp]
    arena_bytes: int
    alignment: int
    regions: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """Bytes that the plan uses of each memory, and that are there; one without a name is all."""
    places: dict[SSAValue, Place] = field(default_factory=dict[SSAValue, Place])
    copied_in: list[int] = field(default_factory=list[int])
    """Inputs that an accelerator reads, and so must be in the arena."""
    copied_out: list[tuple[SSAValue, int]] = field(default_factory=list[tuple[SSAValue, int]])
    """Results that are not computed in place, with the output they are copied to."""
    states: list[KeptState] = field(default_factory=list["KeptState"])
    state_bytes: int = 0
    name: str = "model"
    """What begins the names of its constants that no layer reads."""

    @classmethod
    def of(cls, module: ModuleOp) -> "Program":
        """The program of the network."""
        return cls.of_function(main_function(module))

    @classmethod
    def of_function(cls, main: FuncOp, name: str = "model") -> "Program":
        """That of `main`, or of a function that it calls, whose results have been placed alike."""
        refuse_gaps(main, "c")
        arena = arena_of(main)
        if arena is None:
            raise InputError(
                f"function @{main.sym_name.data} has no 'mem.arena'; run --allocate-blocks first"
            )
        order = steps(main)
        program = cls(
            main,
            network_inputs(main),
            network_outputs(main),
            order,
            [op for op in order if isinstance(op, LaunchOp)],
            arena.size.data,
            arena.alignment.data,
            {r.region.data: (r.size.data, r.capacity.data) for r in regions_of(main)}
            or {"": (arena.size.data, inf)},
            name=name,
        )
        if program.launches:
            refuse_regions(main, "c, whose launches see one arena,")
            refuse_states(main)
        program._place_arguments()
        program._place_results()
        return program

    def _place_arguments(self) -> None:
        kept = {state.argument: state for state in states_of(self.main)}
        i = 0
        for argument in self.main.body.block.args:
            block = block_of(argument)
            if argument in kept:
                self.states.append(KeptState(kept[argument], self._reserve(argument)))
                self.places[argument] = self.states[-1].place
                continue
            if _seen_by_launch(argument):
                if block is None:
                    raise InputError("a launch reads an argument that has no block of the arena")
                self.places[argument] = Arena(block.offset.data, block.region.data)
                self.copied_in.append(i)
            else:
                self.places[argument] = Input(i)
            i += 1

    def _reserve(self, value: SSAValue) -> Kept:
        """Memory for a state."""
        place = Kept(self.state_bytes)
        self.state_bytes += aligned(byte_size(value), STATE_ALIGNMENT)
        return place

    def _place_results(self) -> None:
        written: set[SSAValue] = set()
        kept = {state.position for state in states_of(self.main)}
        public = [v for i, v in enumerate(result_values(self.main)) if i not in kept]
        for i, value in enumerate(public):
            if _is_computed(value) and value not in written and not _seen_by_launch(value):
                written.add(value)
                self.places[value] = Output(i)
            else:
                self.copied_out.append((value, i))
        for state in self.states:
            value = state.state.result
            if value is state.state.argument:
                continue
            if _is_computed(value) and value not in written:
                written.add(value)
                if _read_before(state.state, self.steps):
                    self.places[value] = state.place
                    continue
                self.places[value] = state.next = self._reserve(value)
            state.is_copied = True
        problems: list[Finding] = []
        for op in self.steps:
            for value in op.results:
                if value in written:
                    continue
                source = viewed_operand(op)
                if source is not None and isinstance(
                    place := self.places.get(source), Input | Output | Kept
                ):
                    # The caller's memory outlives the arena's: the same bytes serve.
                    self.places[value] = place
                elif (block := block_of(value)) is None:
                    message = "result has no 'mem.block'; run --allocate-blocks"
                    if isinstance(op, LaunchOp):
                        message += "=io, because the network returns what a launch writes"
                    problems.append(Finding(node_name(op), op.name, message))
                else:
                    self.places[value] = Arena(block.offset.data, block.region.data)
        if problems:
            raise InputError(problems)
        for state in self.states:
            # Where other states are, they change before this one is copied.
            source = self.places.get(state.state.result)
            if state.is_copied and state.next is None and isinstance(source, Kept):
                state.next = self._reserve(state.state.result)
        self._check_places()

    def _check_places(self) -> None:
        """A plan that C would turn into misaligned accesses or overlapping loops is refused."""
        problems: list[Finding] = []
        too_large: list[Finding] = []
        for op in self.steps:
            for value in op.results:
                place = self.places[value]
                if byte_size(value) >= 1 << 31:
                    message = f"unsupported size {byte_size(value)}: below 2^31 bytes per tensor"
                    too_large.append(Finding(node_name(op), op.name, message))
                if not isinstance(place, Arena):
                    continue
                start, end = place.offset, place.offset + byte_size(value)
                size = element_bytes(value)
                held, _ = self.regions.get(place.region, (0, 0))
                if start % size or end > held or self.alignment % size:
                    message = (
                        f"bytes [{start}, {end}) of an arena of {held} bytes aligned "
                        f"to {self.alignment} cannot hold {value.type}"
                    )
                    problems.append(Finding(node_name(op), op.name, message))
                there = self.operands_in_place(op)
                for operand in op.operands:
                    other = self.places.get(operand)
                    if (
                        not isinstance(other, Arena)
                        or operand in there
                        or (other == place and may_overwrite(op, operand))
                    ):
                        continue
                    if other.region != place.region:
                        continue
                    if start < other.offset + byte_size(operand) and other.offset < end:
                        message = f"result at byte {start} overlaps an operand at {other.offset}"
                        problems.append(Finding(node_name(op), op.name, message))
        if problems:
            raise InputError(problems)
        if too_large:
            raise UnsupportedError(too_large)

    def operands_in_place(self, op: Operation) -> frozenset[SSAValue]:
        """The operands whose bytes are where the result has them: nothing moves these."""
        whole = self.places.get(op.results[0]) if op.results else None
        source = viewed_operand(op)
        if source is not None:
            return frozenset([source] if whole and self.places.get(source) == whole else [])
        if not isinstance(op, ConcatOp) or not isinstance(whole, Arena):
            return frozenset()
        parts = slices(op)
        copied = {
            part.operand
            for part in parts
            if self.places.get(part.operand) != Arena(whole.offset + part.start, whole.region)
            or part.pitch
        }
        return frozenset(part.operand for part in parts) - copied

    def is_in_place(self, op: Operation) -> bool:
        """Whether an operation has nothing to do: all of its result is there already."""
        return bool(op.operands) and self.operands_in_place(op).issuperset(op.operands)

    def pointer(self, value: SSAValue, names: list[str]) -> str:
        """The C expression for a value's first element; `names` are of inputs, then outputs."""
        match self.places[value]:
            case Arena() as place:
                return at(value_type(value), place)
            case Input(i):
                return names[i]
            case Output(i):
                return names[len(self.inputs) + i]
            case Kept() as place:
                return self.kept(value_type(value), place)

    def kept(self, kind: str, place: Kept) -> str:
        """The C expression for elements behind everything else in the memory of states."""
        return at(kind, Arena(place.offset, self.state_region), "MODEL_STATE + ")

    @property
    def state_region(self) -> str:
        """Where all states stay: the first memory that has room for them behind its values."""
        for region, (size, _) in self.regions.items():
            if self.has_room(region, size):
                return region
        raise InputError(
            f"no region has room for the {self.state_bytes:,} bytes of states behind its values; "
            "give --regions one more that has it"
        )

    def has_room(self, region: str, end: int, states: bool = True) -> bool:
        """Whether a memory holds what is used of it up to `end`, and the states behind if asked."""
        kept = self.state_bytes if states else 0
        return (aligned(end, STATE_ALIGNMENT) + kept if kept else end) <= self.regions[region][1]


def _seen_by_launch(value: SSAValue) -> bool:
    """Whether an accelerator makes or reads `value`, be it under another shape."""
    if isinstance(value.owner, LaunchOp):
        return True
    users = [use.operation for use in value.uses]
    return any(
        isinstance(user, LaunchOp)
        or (viewed_operand(user) is not None and _seen_by_launch(user.results[0]))
        for user in users
    )


def at(kind: str, place: Arena, base: str = "") -> str:
    """The C expression for elements in an arena, from `base` on."""
    if place.region:
        return f"MODEL_IN({place.region}, {kind}, {base}{place.offset})"
    return f"MODEL_AT({kind}, {base}{place.offset})"


def _is_computed(value: SSAValue) -> bool:
    return not isinstance(value, BlockArgument) and not isinstance(value.owner, ConstantOp)


def _read_before(state: State, order: list[Operation]) -> bool:
    """Whether nothing reads a state any more when the next one is written."""
    steps = {op: i for i, op in enumerate(order)}
    assert isinstance(state.result.owner, Operation)
    written = steps[state.result.owner]
    seen: list[SSAValue] = [state.argument]
    for value in seen:  # Which grows by what is the same bytes.
        for use in value.uses:
            reader = use.operation
            if steps.get(reader, len(order)) >= written:
                return False
            if viewed_operand(reader) is value:
                seen.append(reader.results[0])
    return True


def refuse_states(main: FuncOp) -> None:
    """Refuse states beside launches, whose memory is an image."""
    for state in states_of(main):
        raise InputError(f"state '{state.name}': a network with launches keeps none")


WORKSPACE_ALIGNMENT = 64


class Occupied:
    """
    For each step, the bytes of one memory that hold operands, results, or what is read later.
    """

    def __init__(self, program: Program, region: str = ""):
        steps = {op: i for i, op in enumerate(program.steps)}
        self.bytes: list[list[tuple[int, int]]] = [[] for _ in program.steps]
        for value, place in program.places.items():
            if not isinstance(place, Arena) or place.region != region:
                continue
            first = steps.get(value.owner, 0) if isinstance(value.owner, Operation) else 0
            last = max((steps.get(use.operation, len(steps)) for use in value.uses), default=first)
            span = (place.offset, place.offset + byte_size(value))
            for step in range(first, min(last + 1, len(steps))):
                self.bytes[step].append(span)

    def place(self, step: int, size: int) -> int:
        """The lowest offset at which `size` bytes are free during a step."""
        at = 0
        for start, end in sorted(self.bytes[step]):
            if at + size <= start:
                break
            at = max(at, -(-end // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT)
        return at


def place_workspaces(program: Program, sizes: Mapping[int, int]) -> dict[int, Arena]:
    """
    Step -> place, for the steps that need a workspace: the first memory that has room, beside the
    states where these stay.
    """
    home = program.state_region if program.state_bytes else None
    occupied = {region: Occupied(program, region) for region in program.regions}
    found: dict[int, Arena] = {}
    for step, size in sizes.items():
        if not size:
            continue
        for region in program.regions:
            start = occupied[region].place(step, size)
            if program.has_room(region, start + size, states=region == home):
                found[step] = Arena(start, region)
                break
        else:
            op = program.steps[step]
            reason = f"no region has room for the {size:,} bytes in which its kernel works"
            raise InputError([Finding(node_name(op), op.name, reason)])
    return found
