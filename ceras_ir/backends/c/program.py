"""
Assign a place in memory to each value and workspace of a network.

The workspace of a layer uses bytes of the arena that hold no value during the layer, at the lowest
possible offset. It follows the planned values only if no gap is large enough.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import inf

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ceras_ir.backends.c.values import value_type
from ceras_ir.dialects.graph import ConcatOp, ConstantOp, UpdateOp
from ceras_ir.dialects.graph.attributes import viewed_operand
from ceras_ir.dialects.mem import LaunchOp, arena_of, block_of, regions_of
from ceras_ir.network.artefacts import TensorInfo, network_inputs, network_outputs
from ceras_ir.network.function import State, main_function, result_values, states_of
from ceras_ir.support.diagnostics import Finding, InputError, UnsupportedError, node_name
from ceras_ir.transforms.memory.liveness import byte_size, steps
from ceras_ir.transforms.memory.offsets import aligned
from ceras_ir.transforms.memory.read_states import rings
from ceras_ir.transforms.memory.regions import refuse_regions
from ceras_ir.transforms.memory.slices import element_bytes, may_overwrite, refuse_gaps, slices


@dataclass(frozen=True)
class Arena:
    """
    The place of a value in the arena, or in one of its regions (memories): the bytes from `offset`
    on.
    """

    offset: int
    region: str = ""


@dataclass(frozen=True)
class Input:
    index: int


@dataclass(frozen=True)
class Output:
    index: int


@dataclass(frozen=True)
class StateMemory:
    """
    The place of a state that persists between runs. `offset` is in bytes from the start of all
    states.
    """

    offset: int


Place = Arena | Input | Output | StateMemory


@dataclass
class StoredState:
    """
    A state of the network (a graph input that carries a value from the previous run), and the place
    that stores it between runs.
    """

    state: State
    place: StateMemory
    next: StateMemory | None = None
    """The place of the next state until the end of the run, if it differs."""
    is_copied: bool = False
    """Whether the next state must be copied to the bytes that store the state."""


STATE_ALIGNMENT = 16
"""The alignment of each state in bytes, for vectors."""

RING_BYTES = 4
"""The bytes after a state that is a ring: the index of the oldest row, as int32_t."""


@dataclass
class Program:
    """
    The operations of `main` or of a called function in order, and the place in memory of each value
    except constants.
    """

    main: FuncOp
    inputs: list[TensorInfo]
    outputs: list[TensorInfo]
    steps: list[Operation]
    """All operations except constants and the return, in order. Traces report the index."""
    launches: list[LaunchOp]
    arena_bytes: int
    alignment: int
    regions: dict[str, tuple[int, float]] = field(default_factory=dict[str, tuple[int, float]])
    """The bytes of the plan and the capacity of each region; the arena has an empty name."""
    places: dict[SSAValue, Place] = field(default_factory=dict[SSAValue, Place])
    copied_in: list[int] = field(default_factory=list[int])
    """The indices of graph inputs that an accelerator uses, so that they must be in the arena."""
    copied_out: list[tuple[SSAValue, int]] = field(default_factory=list[tuple[SSAValue, int]])
    """
    Values that are not computed in place, with the index of the graph output that receives the
    copy.
    """
    states: list[StoredState] = field(default_factory=list["StoredState"])
    state_bytes: int = 0
    rings: frozenset[SSAValue] = frozenset()
    """Next states that are stored as a ring of rows: the first row is not at the start."""
    name: str = "model"
    """The prefix of constants that belong to no layer."""

    @classmethod
    def of(cls, module: ModuleOp) -> "Program":
        return cls.of_function(main_function(module))

    @classmethod
    def of_function(cls, main: FuncOp, name: str = "model") -> "Program":
        """
        Return the program of a function after the pass `allocate-blocks`: `main`, or the function
        of a loop body or branch. `name` is the prefix of constants that belong to no layer.
        """
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
            rings=frozenset(update.result for update in rings(main)),
            name=name,
        )
        if program.launches:
            refuse_regions(main, "c with launches, which use a single arena,")
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
                place = self._reserve(argument, is_ring=kept[argument].result in self.rings)
                self.states.append(StoredState(kept[argument], place))
                self.places[argument] = self.states[-1].place
                continue
            if _is_used_by_launch(argument):
                if block is None:
                    raise InputError("a launch uses an argument that has no block in the arena")
                self.places[argument] = Arena(block.offset.data, block.region.data)
                self.copied_in.append(i)
            else:
                self.places[argument] = Input(i)
            i += 1

    def _reserve(self, value: SSAValue, *, is_ring: bool = False) -> StateMemory:
        place = StateMemory(self.state_bytes)
        size = byte_size(value) + (RING_BYTES if is_ring else 0)
        self.state_bytes += aligned(size, STATE_ALIGNMENT)
        return place

    def _place_results(self) -> None:
        written: set[SSAValue] = set()
        kept = {state.position for state in states_of(self.main)}
        public = [v for i, v in enumerate(result_values(self.main)) if i not in kept]
        for i, value in enumerate(public):
            if _is_computed(value) and value not in written and not _is_used_by_launch(value):
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
                if _is_dead_before_update(state.state, self.steps):
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
                    place := self.places.get(source), Input | Output | StateMemory
                ):
                    # The memory of the caller outlives the arena, so the bytes can be shared.
                    self.places[value] = place
                elif (block := block_of(value)) is None:
                    message = "result has no 'mem.block'; run --allocate-blocks"
                    if isinstance(op, LaunchOp):
                        message += "=io, because the network returns the result of a launch"
                    problems.append(Finding(node_name(op), op.name, message))
                else:
                    self.places[value] = Arena(block.offset.data, block.region.data)
        if problems:
            raise InputError(problems)
        for state in self.states:
            # Other states change before this state is copied.
            source = self.places.get(state.state.result)
            if state.is_copied and state.next is None and isinstance(source, StateMemory):
                state.next = self._reserve(state.state.result)
        self._check_places()

    def _check_places(self) -> None:
        """
        Raise an error if the memory plan has misaligned values, results that overlap operands of
        the same operation, or tensors of 2^31 bytes or more.
        """
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
                region_size, _ = self.regions.get(place.region, (0, 0))
                if start % size or end > region_size or self.alignment % size:
                    message = (
                        f"bytes [{start}, {end}) of an arena of {region_size} bytes aligned "
                        f"to {self.alignment} cannot hold {value.type}"
                    )
                    problems.append(Finding(node_name(op), op.name, message))
                there = self.operands_in_place(op)
                for operand in op.operands:
                    other = self.places.get(operand)
                    if (
                        not isinstance(other, Arena)
                        or operand in there
                        or other.region != place.region
                        or (other == place and may_overwrite(op, operand))
                    ):
                        continue
                    if start < other.offset + byte_size(operand) and other.offset < end:
                        message = f"result at byte {start} overlaps an operand at {other.offset}"
                        problems.append(Finding(node_name(op), op.name, message))
        if problems:
            raise InputError(problems)
        if too_large:
            raise UnsupportedError(too_large)

    def operands_in_place(self, op: Operation) -> frozenset[SSAValue]:
        """
        Return the operands that share the memory of the result, so that no copy is needed: the
        operand of a view, such as a reshape, a state that is updated in place, and the operands of
        a concatenation that are stored inside the result.
        """
        result = self.places.get(op.results[0]) if op.results else None
        source = viewed_operand(op)
        if source is not None:
            return frozenset([source] if result and self.places.get(source) == result else [])
        if isinstance(op, UpdateOp):
            is_same = result is not None and self.places.get(op.input) == result
            return frozenset([op.input] if is_same else [])
        if not isinstance(op, ConcatOp) or not isinstance(result, Arena):
            return frozenset()
        parts = slices(op)
        copied = {
            part.operand
            for part in parts
            if self.places.get(part.operand) != Arena(result.offset + part.start, result.region)
            or part.pitch
        }
        return frozenset(part.operand for part in parts) - copied

    def is_in_place(self, op: Operation) -> bool:
        """
        Return whether an operation needs no code, because all operands share the memory of the
        result. This is `False` without operands.
        """
        return bool(op.operands) and self.operands_in_place(op).issuperset(op.operands)

    def pointer(self, value: SSAValue, names: list[str]) -> str:
        """
        Return the C expression of a pointer to `value`. `names` are the C parameters of graph
        inputs, then of graph outputs.
        """
        match self.places[value]:
            case Arena() as place:
                return at(value_type(value), place)
            case Input(i):
                return names[i]
            case Output(i):
                return names[len(self.inputs) + i]
            case StateMemory() as place:
                return self.kept(value_type(value), place)

    def kept(self, kind: str, place: StateMemory) -> str:
        """Return the C expression of a pointer to a state. `kind` is the C type of the elements."""
        return at(kind, Arena(place.offset, self.state_region), "MODEL_STATE + ")

    @property
    def state_region(self) -> str:
        """
        The region (memory) of the arena that holds all states: the first with enough space after
        the values. `InputError` if there is none.
        """
        for region, (size, _) in self.regions.items():
            if self.has_room(region, size):
                return region
        raise InputError(
            f"no region has room for the {self.state_bytes:,} bytes of states after the values; "
            "add a larger region to --regions"
        )

    def has_room(self, region: str, end: int, states: bool = True) -> bool:
        """
        Return whether a region has a capacity of `end` bytes. If `states` is set, the states of the
        network must fit after these bytes, too.
        """
        kept = self.state_bytes if states else 0
        return (aligned(end, STATE_ALIGNMENT) + kept if kept else end) <= self.regions[region][1]


def _is_used_by_launch(value: SSAValue) -> bool:
    """Return whether an accelerator computes or uses `value` or a reshaped view of it."""
    if isinstance(value.owner, LaunchOp):
        return True
    users = [use.operation for use in value.uses]
    return any(
        isinstance(user, LaunchOp)
        or (viewed_operand(user) is not None and _is_used_by_launch(user.results[0]))
        for user in users
    )


def at(kind: str, place: Arena, base: str = "") -> str:
    """
    Return the C expression of a pointer to a place in the arena. `kind` is the C type of the
    elements, and `base` is C text before the offset in bytes, such as `MODEL_STATE + `.
    """
    if place.region:
        return f"MODEL_IN({place.region}, {kind}, {base}{place.offset})"
    return f"MODEL_AT({kind}, {base}{place.offset})"


def _is_computed(value: SSAValue) -> bool:
    return not isinstance(value, BlockArgument) and not isinstance(value.owner, ConstantOp)


def _is_dead_before_update(state: State, order: list[Operation]) -> bool:
    """
    Return whether all uses of a state precede the operation that computes the next state, or are
    the input of an update, which can write the rows in place.
    """
    steps = {op: i for i, op in enumerate(order)}
    assert isinstance(state.result.owner, Operation)
    written = steps[state.result.owner]
    aliases: list[SSAValue] = [state.argument]
    for value in aliases:  # The list grows by values that share the bytes.
        for use in value.uses:
            reader = use.operation
            is_updated = reader is state.result.owner and value is state.argument
            if isinstance(reader, UpdateOp) and is_updated and use.index == 0:
                continue
            if steps.get(reader, len(order)) >= written:
                return False
            if viewed_operand(reader) is value:
                aliases.append(reader.results[0])
    return True


def refuse_states(main: FuncOp) -> None:
    for state in states_of(main):
        raise InputError(f"state '{state.name}': a network with launches has no states")


WORKSPACE_ALIGNMENT = 64


class Occupied:
    """
    The byte ranges of a region that hold values, for each step (index of an operation). Workspaces
    are placed in the free bytes.
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
        """
        Return the lowest aligned offset at which `size` bytes of the region are free during
        operation number `step`. It may be after all values.
        """
        at = 0
        for start, end in sorted(self.bytes[step]):
            if at + size <= start:
                break
            at = max(at, -(-end // WORKSPACE_ALIGNMENT) * WORKSPACE_ALIGNMENT)
        return at


def place_workspaces(program: Program, sizes: Mapping[int, int]) -> dict[int, Arena]:
    """
    Return the place of each workspace (temporary memory of a layer) in the arena, by the index of
    the operation. `sizes` are the bytes; operations with 0 bytes are omitted. A workspace is in the
    first region that has enough bytes without a live value; workspaces of different operations can
    overlap. The region of the states must also have room for the states. Raise an `InputError` if
    no region has room.
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
            reason = f"no region has room for the workspace of {size:,} bytes"
            raise InputError([Finding(node_name(op), op.name, reason)])
    return found
