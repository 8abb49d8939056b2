// Replay the writes of a run over the arena: each value must be unchanged until its last use.
#include "replay.h"

#include <algorithm>
#include <cstddef>
#include <vector>

#include "operation.h"

namespace ceras {
namespace {

// The bytes of a value: `count` rows of `width` bytes, `pitch` bytes apart.
struct Rows {
  int64_t start, count, width, pitch;

  int64_t end() const { return start + (count - 1) * pitch + width; }

  // The number of bytes of the value below an address.
  int64_t below(int64_t address) const {
    if (address <= start) return 0;
    const int64_t whole = (address - start) / pitch, rest = (address - start) % pitch;
    return std::min(whole * width + std::min(rest, width), count * width);
  }
};

struct Arena {
  const uint8_t* base;

  Rows rows(const Tensor& t) const {
    const int64_t unit = bytes_of(t.storage), start = t.data - base;
    if (!t.has_gaps()) return {start, 1, t.bytes, t.bytes};
    return {start, t.elements / t.row, t.row * unit, t.pitch * unit};
  }
};

// The bytes that two values of equal pitch share: each row of `b` starts in a row of `a`, and may
// end in the next row.
int64_t shared_columns(const Rows& a, const Rows& b) {
  const int64_t distance = b.start - a.start;
  const int64_t column = (distance % a.pitch + a.pitch) % a.pitch;
  const int64_t row = (distance - column) / a.pitch;
  const auto pairs = [&](int64_t shift) {
    return std::max(std::min(a.count, b.count + shift) - std::max<int64_t>(0, shift), int64_t{0});
  };
  const int64_t here = std::max(std::min(a.width, column + b.width) - column, int64_t{0});
  const int64_t next = std::max(std::min(a.width, column + b.width - a.pitch), int64_t{0});
  return here * pairs(row) + next * pairs(row + 1);
}

// Rows of different pitches count as sharing all bytes that their ranges share.
int64_t shared_bytes(const Rows& a, const Rows& b) {
  if (a.end() <= b.start || b.end() <= a.start) return 0;
  if (a.count > 1 && b.count > 1)
    return a.pitch == b.pitch ? shared_columns(a, b)
                              : std::min(a.end(), b.end()) - std::max(a.start, b.start);
  const Rows &one = a.count == 1 ? a : b, &other = a.count == 1 ? b : a;
  return other.below(one.start + one.width) - other.below(one.start);
}

bool differ_in_pitch(const Rows& a, const Rows& b) {
  return a.count > 1 && b.count > 1 && a.pitch != b.pitch;
}

// The values in memory, and the operands of a layer that are already at their bytes of the result.
struct Memory {
  Arena arena;
  std::vector<const Tensor*> alive;

  bool holds(const Tensor& tensor) const {
    return tensor.constant() || std::find(alive.begin(), alive.end(), &tensor) != alive.end();
  }

  // Whether writing `written` preserves all bytes of `old`.
  static bool survives(const Rows& old, const Rows& written, const std::vector<Rows>& kept) {
    const int64_t shared = shared_bytes(written, old);
    if (shared == 0) return true;
    int64_t same = 0;
    for (const Rows& rows : kept) same += shared_bytes(rows, old);
    return !differ_in_pitch(old, written) && shared == same;
  }

  void write(const Tensor& tensor, const std::vector<Rows>& kept) {
    const Rows written = arena.rows(tensor);
    const auto lost = [&](const Tensor* old) {
      return old == &tensor || !survives(arena.rows(*old), written, kept);
    };
    alive.erase(std::remove_if(alive.begin(), alive.end(), lost), alive.end());
    alive.push_back(&tensor);
  }
};

std::vector<Rows> kept_by(const Layer& layer, const Arena& arena) {
  std::vector<Rows> kept;
  for (size_t i = 0; i < layer.operands.size(); ++i)
    if (!layer.operands[i]->constant() && layer.operation->keeps(layer, i))
      kept.push_back(arena.rows(*layer.operands[i]));
  return kept;
}

}  // namespace

const char* replay(const Model& model) {
  Memory memory{{model.base}, {}};
  size_t inputs = 0;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const Tensor* input = model.inputs[i].tensor;
    const auto same = [&](const Border& other) { return other.tensor == input; };
    const bool again = std::any_of(model.inputs.begin(), model.inputs.begin() +
                                   static_cast<std::ptrdiff_t>(i), same);
    inputs += !again;
    memory.write(*input, {});
  }
  if (memory.alive.size() != inputs) return "two inputs overlap";
  for (const State& state : model.states) {
    const auto same = [&](const Border& other) { return other.tensor == state.input; };
    if (std::count_if(model.inputs.begin(), model.inputs.end(), same) != 1)
      return "a state is an input twice";
  }
  for (const Layer& layer : model.layers) {
    for (const Tensor* operand : layer.operands)
      if (!memory.holds(*operand)) return "an operand of a layer is not in memory";
    memory.write(*layer.result, kept_by(layer, memory.arena));
  }
  for (const Border& output : model.outputs)
    if (!memory.holds(*output.tensor)) return "an output is not in memory at the end";
  return nullptr;
}

}  // namespace ceras
