// Elementwise operators of the CPU.
#include <algorithm>
#include <cmath>

#include "float_functions.h"
#include "integers.h"
#include "operators.h"
#include "translate.h"

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

// Calls `body(operand start, result start, first element, count)` for each run of an operator
// whose result has its operand's shape: all at once if there are no gaps, else row by row.
template <class Body>
void each_run(const Layer& layer, Body body) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (!in.has_gaps() && !out.has_gaps()) return body(0, 0, 0, out.elements);
  for (int64_t row = 0; row < out.elements / out.row; ++row)
    body(row * in.pitch, row * out.pitch, row * out.row, out.row);
}

// The same with at most a chunk each.
template <class Body>
void each_chunk(const Layer& layer, Body body) {
  each_run(layer, [&](int64_t in, int64_t out, int64_t element, int64_t length) {
    for (int64_t at = 0; at < length; at += CHUNK)
      body(in + at, out + at, element + at, std::min(CHUNK, length - at));
  });
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

// Rows of channels, each with its table; or one table for all.
template <class Stored>
void lookup_by_channel(const Layer& layer) {
  const int64_t half = layer.attributes[0] / 2;
  const int64_t channels = static_cast<int64_t>(layer.tables.size());
  const uint8_t* const* tables = layer.tables.data();
  each_run(layer, [&](int64_t in, int64_t out, int64_t, int64_t count) {
    const Stored* from = reinterpret_cast<const Stored*>(layer.input().data) + in;
    uint8_t* to = layer.output().target + out;
    for (int64_t row = 0; row < count; row += channels)
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t index = from[row + c];
        to[row + c] = tables[c][std::clamp(index, -half, half - 1)];
      }
  });
}

int64_t bent(int64_t q, const uint32_t* k) {
  const int64_t p = q < 0 ? -q : q, m = -p;
  const int64_t bends[] = {k[0], k[1], k[2], k[3], k[4]};
  const int64_t tail = std::min({(p >> 3) - bends[2], (p >> 4) - bends[3], (p >> 6) - bends[4],
                                 int64_t{0}});
  return std::max(q, int64_t{0}) + std::max({m >> 1, (m >> 2) - bends[0], -bends[1], tail});
}

}  // namespace

void shift_swish(const Layer& layer, Scratch&) {
  const size_t channels = layer.attributes.size() / 5;
  each_chunk(layer, [&](int64_t in, int64_t out, int64_t element, int64_t count) {
    int64_t values[CHUNK];
    read_integers(layer.input(), in, count, values);
    for (int64_t i = 0; i < count; ++i)
      values[i] =
          bent(values[i], &layer.attributes[static_cast<size_t>(element + i) % channels * 5]);
    requantize(values, count, layer.requant);
    write_integers(layer.output(), out, count, values);
  });
}

void unary(const Layer& layer, Scratch&) {
  const size_t channels = layer.attributes.size() / 2;
  each_run(layer, [&](int64_t from, int64_t to, int64_t element, int64_t count) {
    const float* in = layer.input().floats() + from;
    float* out = layer.output().float_target() + to;
    if (channels == 0) {
      for (int64_t i = 0; i < count; ++i) out[i] = apply(layer.function, layer.parameters, in[i]);
      return;
    }
    for (int64_t i = 0; i < count; ++i) {
      const size_t c = static_cast<size_t>(element + i) % channels;
      const int up = static_cast<int32_t>(layer.attributes[c]);
      const int down = static_cast<int32_t>(layer.attributes[channels + c]);
      out[i] = std::ldexp(apply(layer.function, layer.parameters, std::ldexp(in[i], up)), -down);
    }
  });
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
    for (int64_t i = 0; i < count; ++i)
      out[at + i] = apply(layer.function, layer.parameters, a[i]);
  });
}

void lookup(const Layer& layer, Scratch&) {
  if (!layer.tables.empty())
    return layer.input().storage == Storage::I8 ? lookup_by_channel<int8_t>(layer)
                                                : lookup_by_channel<int16_t>(layer);
  const Translation table(layer.table);
  each_run(layer, [&](int64_t in, int64_t out, int64_t, int64_t count) {
    table.run(layer.input().data + in, layer.output().target + out, count);
  });
}

void softmax(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  const uint32_t axis = layer.attributes[0];
  const int64_t length = out.dims[axis];
  int64_t inner = 1;
  for (uint32_t i = axis + 1; i < out.rank; ++i) inner *= out.dims[i];
  const Tensor& in = layer.input();
  int64_t from[MAX_RANK] = {}, to[MAX_RANK] = {};
  strides_of(in, from);
  strides_of(out, to);
  const int64_t a = from[axis], b = to[axis];
  for (int64_t row = 0; row < out.elements / length; ++row) {
    const int64_t start = row / inner * length * inner + row % inner;
    const float* x = in.floats() + start / in.row * in.pitch + start % in.row;
    float* y = out.float_target() + start / out.row * out.pitch + start % out.row;
    float greatest = x[0], sum = 0;
    for (int64_t i = 1; i < length; ++i) greatest = maximum(greatest, x[i * a]);
    for (int64_t i = 0; i < length; ++i) {
      y[i * b] = exp_f32(x[i * a] - greatest);
      sum = i == 0 ? y[0] : sum + y[i * b];
    }
    for (int64_t i = 0; i < length; ++i) y[i * b] /= sum;
  }
}

void quantize(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  const int64_t low = low_of(out.storage), high = high_of(out.storage);
  each_chunk(layer, [&](int64_t from, int64_t to, int64_t, int64_t count) {
    const float* in = layer.input().floats() + from;
    int64_t values[CHUNK];
    for (int64_t i = 0; i < count; ++i) {
      constexpr float LIMIT = 2147483648.0f;
      float scaled = std::nearbyint(in[i] / out.scale);  // ties to even
      if (scaled != scaled) scaled = 0;
      scaled = std::min(std::max(scaled, -LIMIT), LIMIT);
      values[i] = std::min(std::max(static_cast<int64_t>(scaled) + out.zero_point, low), high);
    }
    write_integers(out, to, count, values);
  });
}

void dequantize(const Layer& layer, Scratch&) {
  const Tensor& in = layer.input();
  each_chunk(layer, [&](int64_t from, int64_t to, int64_t, int64_t count) {
    float* out = layer.output().float_target() + to;
    int64_t values[CHUNK];
    read_centred(in, from, count, values);
    for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(values[i]) * in.scale;
  });
}

void requantize_layer(const Layer& layer, Scratch&) {
  each_chunk(layer, [&](int64_t from, int64_t to, int64_t, int64_t count) {
    int64_t values[CHUNK];
    read_centred(layer.input(), from, count, values);
    requantize(values, count, layer.requant);
    write_integers(layer.output(), to, count, values);
  });
}

}  // namespace ceras
