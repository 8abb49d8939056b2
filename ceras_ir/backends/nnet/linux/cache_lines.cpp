// Ranges of lines are cleaned or invalidated together, including clean lines between them.
#include "cache_lines.h"

#include <algorithm>

namespace ceras {
namespace {

constexpr uint64_t LINE = 64;

}  // namespace

CacheLines::CacheLines(const DeviceMemory& memory)
    : memory_(memory), lines_((memory.size + LINE - 1) / LINE, OF_CPU) {}

bool CacheLines::cpu_uses(uint64_t offset, uint64_t bytes, CpuUse use) {
  const uint64_t first = offset / LINE, end = (offset + bytes + LINE - 1) / LINE;
  uint64_t whole = first, behind = first;
  if (use == CpuUse::WritesAll) {
    // A line that is entirely overwritten need not be read.
    whole = (offset + LINE - 1) / LINE;
    behind = std::max((offset + bytes) / LINE, whole);
    whole = std::min(whole, end);
    behind = std::min(behind, end);
  }
  if (!settle(first, whole, OF_DEVICE, memory_.invalidate) ||
      !settle(behind, end, OF_DEVICE, memory_.invalidate))
    return false;
  if (use != CpuUse::Reads) mark(first, end, OF_CPU);
  return true;
}

bool CacheLines::device_uses(uint64_t offset, uint64_t bytes, bool writes) {
  const uint64_t first = offset / LINE, end = (offset + bytes + LINE - 1) / LINE;
  if (!settle(first, end, OF_CPU, memory_.clean)) return false;
  if (writes) mark(first, end, OF_DEVICE);
  return true;
}

void CacheLines::mark(uint64_t first, uint64_t end, State state) {
  std::fill(lines_.begin() + static_cast<std::ptrdiff_t>(first),
            lines_.begin() + static_cast<std::ptrdiff_t>(end), state);
}

// Clean or invalidate the lines of `state` in [first, end). The lines are clean afterwards.
bool CacheLines::settle(uint64_t first, uint64_t end, State state, Maintain maintain) {
  for (uint64_t i = first; i < end;) {
    if (lines_[i] != state) {
      ++i;
      continue;
    }
    uint64_t last = i, next = i + 1;
    for (; next < end && (lines_[next] == state || lines_[next] == CLEAN); ++next)
      if (lines_[next] == state) last = next;
    if (maintain(memory_.context, i * LINE, (last + 1 - i) * LINE) != 0) return false;
    mark(i, last + 1, CLEAN);
    i = next;
  }
  return true;
}

}  // namespace ceras
