// Operators of two operands under broadcasting.
#include <algorithm>

#include "checks.h"
#include "float_functions.h"
#include "integers.h"

namespace ceras {
namespace {

// Rows of a binary operator under broadcasting: along a row each operand moves by 0 or 1.
struct Rows {
  int64_t length = 1, count = 1, pitch = 0;
  int64_t steps[2] = {1, 1};
  uint32_t rank = 0;
  int64_t dims[MAX_RANK] = {}, strides[2][MAX_RANK] = {};

  explicit Rows(const Layer& layer) {
    const Tensor& out = layer.output();
    bool flat = !out.has_gaps();
    for (int i = 0; i < 2; ++i) {
      const Tensor& operand = *layer.operands[i];
      flat = flat && !operand.has_gaps() && (operand.elements == out.elements || operand.elements == 1);
      steps[i] = operand.elements == 1 ? 0 : 1;
    }
    if (flat || out.rank == 0) {
      length = out.elements;
      return;
    }
    rank = out.rank - 1;
    length = out.dims[rank];
    count = out.elements / length;
    pitch = out.pitch;
    std::copy(out.dims, out.dims + rank, dims);
    for (int i = 0; i < 2; ++i) stride(*layer.operands[i], out.rank, i);
  }

  void stride(const Tensor& operand, uint32_t out_rank, int index) {
    const uint32_t missing = out_rank - operand.rank;
    int64_t elements = 1;
    for (uint32_t d = out_rank; d-- > missing;) {
      const int64_t extent = operand.dims[d - missing];
      const int64_t step = extent == 1 ? 0 : elements;
      if (d == out_rank - 1)
        steps[index] = step;
      else
        strides[index][d] = step;
      elements = d == out_rank - 1 ? operand.pitch : elements * extent;
    }
    if (operand.rank == 0) steps[index] = 0;
  }

  // First element of row `row` of an operand.
  int64_t start(int index, int64_t row) const {
    int64_t at = 0;
    for (uint32_t d = rank; d-- > 0;) {
      at += row % dims[d] * strides[index][d];
      row /= dims[d];
    }
    return at;
  }
};

// Calls `body(lhs start, rhs start, result start, count)` with at most a chunk each.
template <class Body>
void each_part(const Rows& rows, Body body) {
  for (int64_t row = 0; row < rows.count; ++row) {
    const int64_t lhs = rows.start(0, row), rhs = rows.start(1, row);
    for (int64_t at = 0; at < rows.length; at += CHUNK)
      body(lhs + at * rows.steps[0], rhs + at * rows.steps[1], row * rows.pitch + at,
           std::min(CHUNK, rows.length - at));
  }
}

void read_operand(const Tensor& tensor, int64_t start, int64_t step, int64_t count,
                  int64_t factor, int64_t* out) {
  read_centred(tensor, start, step == 0 ? 1 : count, out);
  if (step == 0) std::fill(out + 1, out + count, out[0]);
  if (factor == 1) return;
  for (int64_t i = 0; i < count; ++i) out[i] *= factor;
}

template <class Number>
void combine(uint32_t kind, Number* lhs, const Number* rhs, int64_t count) {
  switch (kind) {
    case BINARY_ADD:
      for (int64_t i = 0; i < count; ++i) lhs[i] += rhs[i];
      return;
    case BINARY_SUB:
      for (int64_t i = 0; i < count; ++i) lhs[i] -= rhs[i];
      return;
    default:
      for (int64_t i = 0; i < count; ++i) lhs[i] *= rhs[i];
  }
}

// The same with what integers do not have. Of equal extremes the second wins, of NaNs the first.
void combine_floats(uint32_t kind, float* lhs, const float* rhs, int64_t count) {
  switch (kind) {
    case BINARY_DIV:
      for (int64_t i = 0; i < count; ++i) lhs[i] /= rhs[i];
      return;
    case BINARY_MIN:
      for (int64_t i = 0; i < count; ++i)
        lhs[i] = (lhs[i] < rhs[i] || lhs[i] != lhs[i]) ? lhs[i] : rhs[i];
      return;
    case BINARY_MAX:
      for (int64_t i = 0; i < count; ++i)
        lhs[i] = (lhs[i] > rhs[i] || lhs[i] != lhs[i]) ? lhs[i] : rhs[i];
      return;
    default:
      combine(kind, lhs, rhs, count);
  }
}

void binary_integer(const Layer& layer, Scratch&) {
  const Rows rows(layer);
  each_part(rows, [&](int64_t lhs, int64_t rhs, int64_t at, int64_t count) {
    int64_t a[CHUNK], b[CHUNK];
    read_operand(*layer.operands[0], lhs, rows.steps[0], count, layer.factors[0], a);
    read_operand(*layer.operands[1], rhs, rows.steps[1], count, layer.factors[1], b);
    combine(layer.attributes[0], a, b, count);
    requantize(a, count, layer.requant);
    write_integers(layer.output(), at, count, a);
  });
}

void binary_float(const Layer& layer, Scratch&) {
  const Rows rows(layer);
  const float *left = layer.operands[0]->floats(), *right = layer.operands[1]->floats();
  float* out = layer.output().float_target();
  each_part(rows, [&](int64_t lhs, int64_t rhs, int64_t at, int64_t count) {
    float a[CHUNK], b[CHUNK];
    for (int64_t i = 0; i < count; ++i) a[i] = left[lhs + i * rows.steps[0]];
    for (int64_t i = 0; i < count; ++i) b[i] = right[rhs + i * rows.steps[1]];
    combine_floats(layer.attributes[0], a, b, count);
    apply_all(layer.function, layer.parameters, a, count);
    std::copy(a, a + count, out + at);
  });
}

// Operands of a quantized sum are multiplied and shifted.
const char* prepare(Layer& layer) {
  const auto& words = layer.attributes;
  if (words.size() != 3 && words.size() != 5) return "wrong number of attributes";
  for (size_t i = 0; i < 2; ++i) {
    const uint64_t multiplier = words.size() == 5 ? words[3 + i] : 1;
    if (words[1 + i] > 22 || multiplier < 1 || multiplier << words[1 + i] > MAX_FACTOR)
      return "unknown attribute";
    layer.factors[i] = static_cast<int64_t>(multiplier << words[1 + i]);
  }
  return nullptr;
}

const char* check(const Layer& layer) {
  const Tensor& out = layer.output();
  if (layer.attributes[0] > BINARY_MAX) return "unknown attribute";
  if (out.quantized() && layer.attributes[0] > BINARY_MUL) return "it has no quantized form";
  uint32_t rank = 0;
  for (const Tensor* operand : layer.operands) rank = std::max(rank, operand->rank);
  if (out.rank != rank) return "its result has the wrong rank";
  for (uint32_t i = 0; i < rank; ++i) {
    int64_t extent = 1;
    for (const Tensor* operand : layer.operands) {
      const uint32_t missing = rank - operand->rank;
      const int64_t own = i < missing ? 1 : operand->dims[i - missing];
      if (own != 1 && extent != 1 && own != extent) return "its operands do not broadcast";
      extent = std::max(extent, own);
    }
    if (out.dims[i] != extent) return "its result has the wrong shape";
  }
  for (const Tensor* operand : layer.operands)
    if (out.quantized() && !is_narrow(*operand)) return "operands of 8 or 16 bits are expected";
  return check_rescaling(layer);
}

const char* sum_fits(const Layer& layer) {
  const int64_t lhs = magnitude(*layer.operands[0]) * layer.factors[0];
  const int64_t rhs = magnitude(*layer.operands[1]) * layer.factors[1];
  return fits_64(layer.attributes[0] == BINARY_MUL ? lhs * rhs : lhs + rhs,
                 layer.requant.multiplier);
}

bool over_equal(const Layer& layer, size_t operand) {
  const Tensor &own = *layer.operands[operand], &out = layer.output();
  return same_shape(own, out) && own.storage == out.storage && in_place(layer, operand);
}

Run operator_of_binary(const Layer& layer) {
  return layer.output().quantized() ? binary_integer : binary_float;
}

const Operation OPERATIONS[] = {
    {5, 2, ANY, FUNCTION | REQUANT, check, operator_of_binary, over_equal, prepare, sum_fits,
     no_scratch, Circuit::Adder},
};

}  // namespace

const Family BINARY(OPERATIONS);

}  // namespace ceras
