"""
What a single instruction may say if every VTA implementation is to run it alike.

Functional simulator (`sim_driver.cc`), HLS design (`vta.cc`) and Chisel RTL (`core/`) of
apache/tvm-vta differ outside this subset. Rules that need the micro-ops or the order of the
stream are `checker`'s.
"""

from ceras_ir.backends.vta.hardware import PORTABLE_UOPS, SHR_RANGE
from ceras_ir.backends.vta.isa import (
    Alu,
    AluOpcode,
    Finish,
    Gemm,
    Instruction,
    Load,
    MemoryType,
    Module,
    Store,
    module_of,
)


def violations(instruction: Instruction) -> list[str]:
    """What is not portable in `instruction`, looked at alone."""
    found = _token_violations(instruction)
    match instruction:
        case Load() as i:
            found += _load_violations(i)
        case Store() as i:
            if i.x_size and not i.y_size:
                found.append("y_size must not be 0 unless x_size is")
        case Gemm() | Alu() as i:
            found += _loop_violations(i)
        case Finish() as i:
            if i.pop_prev or i.pop_next or i.push_prev or i.push_next:
                found.append("finish must carry no tokens: drain with no-ops before it")
    return found


def _token_violations(i: Instruction) -> list[str]:
    module = module_of(i)
    if module is Module.LOAD and (i.pop_prev or i.push_prev):
        return ["the load module has no previous module: pop_prev and push_prev must be off"]
    if module is Module.STORE and (i.pop_next or i.push_next):
        return ["the store module has no next module: pop_next and push_next must be off"]
    return []


def _load_violations(i: Load) -> list[str]:
    found: list[str] = []
    padded = i.y_pad_top or i.y_pad_bottom or i.x_pad_left or i.x_pad_right
    if i.memory is MemoryType.ACC_8BIT:
        found.append("acc_8bit loads exist in newer implementations only: load acc")
    if i.x_size == 0:
        if padded:
            found.append("a no-op (x_size 0) must have no pads")
        return found
    if i.y_size == 0:
        found.append("y_size must not be 0 unless x_size is")
    if i.memory is MemoryType.UOP and i.y_size != 1:
        found.append(f"micro-op loads must have y_size 1, got {i.y_size}")
    if padded and i.memory in (MemoryType.WGT, MemoryType.UOP):
        found.append(f"{i.memory.name.lower()} loads must have no pads")
    return found


def _loop_violations(i: Gemm | Alu) -> list[str]:
    found: list[str] = []
    if not i.uop_bgn < i.uop_end:
        found.append(f"empty micro-op range [{i.uop_bgn}, {i.uop_end})")
    if i.uop_end > PORTABLE_UOPS:
        found.append(f"uop_end must be at most {PORTABLE_UOPS}, got {i.uop_end}")
    if i.iter_out < 1 or i.iter_in < 1:
        found.append(f"iterations must be at least 1, got {i.iter_out} x {i.iter_in}")
    if isinstance(i, Gemm):
        return found
    if i.opcode is AluOpcode.MUL:
        found.append("mul exists in newer implementations only")
    low, high = SHR_RANGE
    if i.opcode is AluOpcode.SHR and i.use_imm and not low <= i.imm <= high:
        found.append(f"shift amount must be in [{low}, {high}], got {i.imm}")
    src, dst = (i.src_factor_out, i.src_factor_in), (i.dst_factor_out, i.dst_factor_in)
    if i.use_imm and src != dst:
        found.append(
            f"an immediate operation must have src factors equal to dst factors, "
            f"got {list(src)} and {list(dst)}"
        )
    return found
