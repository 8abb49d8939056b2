// Operators with a single operand and a result of equal shape.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "checks.h"
#include "float_functions.h"
#include "integers.h"
#include "translate.h"

namespace ceras {
namespace {

// Call `body(operand start, result start, first element, count)` for each run of elements: a single
// run without gaps, otherwise each row.
template <class Body>
void each_run(const Layer& layer, Body body) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (!in.has_gaps() && !out.has_gaps()) return body(0, 0, 0, out.elements);
  for (int64_t row = 0; row < out.elements / out.row; ++row)
    body(row * in.pitch, row * out.pitch, row * out.row, out.row);
}

// The same with runs of at most a chunk.
template <class Body>
void each_chunk(const Layer& layer, Body body) {
  each_run(layer, [&](int64_t in, int64_t out, int64_t element, int64_t length) {
    for (int64_t at = 0; at < length; at += CHUNK)
      body(in + at, out + at, element + at, std::min(CHUNK, length - at));
  });
}

// Apply a table per channel or a single table. The middle of a table is the entry of signed 0, or
// of unsigned 128.
template <class Stored, class Made>
void lookup_by_channel(const Layer& layer) {
  constexpr int64_t middle = std::is_signed_v<Stored> ? 0 : 128;
  const int64_t half = layer.attributes[0] / 2;
  const int64_t channels = static_cast<int64_t>(layer.tables.size());
  const uint8_t* const* tables = layer.tables.data();
  constexpr int64_t size = sizeof(Made);
  each_run(layer, [&](int64_t in, int64_t out, int64_t, int64_t count) {
    const Stored* from = reinterpret_cast<const Stored*>(layer.input().data) + in;
    uint8_t* to = layer.output().target + out * size;
    for (int64_t row = 0; row < count; row += channels)
      for (int64_t c = 0; c < channels; ++c) {
        const int64_t index = std::clamp<int64_t>(from[row + c] - middle, -half, half - 1);
        std::memcpy(to + (row + c) * size, tables[c] + index * size, size);
      }
  });
}

template <class Stored>
void lookup_into(const Layer& layer) {
  switch (layer.output().storage) {
    case Storage::I8: return lookup_by_channel<Stored, int8_t>(layer);
    case Storage::I16: return lookup_by_channel<Stored, int16_t>(layer);
    default: return lookup_by_channel<Stored, float>(layer);
  }
}

int64_t bent(int64_t q, const uint32_t* k) {
  const int64_t p = q < 0 ? -q : q, m = -p;
  const int64_t bends[] = {k[0], k[1], k[2], k[3], k[4]};
  const int64_t tail = std::min({(p >> 3) - bends[2], (p >> 4) - bends[3], (p >> 6) - bends[4],
                                 int64_t{0}});
  return std::max(q, int64_t{0}) + std::max({m >> 1, (m >> 2) - bends[0], -bends[1], tail});
}

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
      if (in != out) std::copy(in, in + count, out);
      return apply_all(layer.function, layer.parameters, out, count);
    }
    // The exponents of the operand, then the exponents of the result.
    const auto scale = [&](const float* from, size_t first, int sign) {
      for (int64_t i = 0; i < count; ++i) {
        const size_t c = static_cast<size_t>(element + i) % channels;
        out[i] = std::ldexp(from[i], sign * static_cast<int32_t>(layer.attributes[first + c]));
      }
    };
    scale(in, 0, 1);
    apply_all(layer.function, layer.parameters, out, count);
    scale(out, channels, -1);
  });
}

void lookup(const Layer& layer, Scratch&) {
  if (!layer.tables.empty()) {
    switch (layer.input().storage) {
      case Storage::I8: return lookup_into<int8_t>(layer);
      case Storage::U8: return lookup_into<uint8_t>(layer);
      default: return lookup_into<int16_t>(layer);
    }
  }
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
    float greatest = x[0];
    for (int64_t i = 1; i < length; ++i) greatest = maximum(greatest, x[i * a]);
    for (int64_t i = 0; i < length; ++i) y[i * b] = x[i * a] - greatest;
    // A separate loop, which compilers vectorize.
    if (b == 1)
      for (int64_t i = 0; i < length; ++i) y[i] = exp_f32(y[i]);
    else
      for (int64_t i = 0; i < length; ++i) y[i * b] = exp_f32(y[i * b]);
    const float sum = sum_f32(y, static_cast<size_t>(length), static_cast<size_t>(b));
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

void requantize(const Layer& layer, Scratch&) {
  each_chunk(layer, [&](int64_t from, int64_t to, int64_t, int64_t count) {
    int64_t values[CHUNK];
    read_centred(layer.input(), from, count, values);
    requantize(values, count, layer.requant);
    write_integers(layer.output(), to, count, values);
  });
}

const char* check_floats(const Layer& layer) {
  return is_float(layer.input()) && is_float(layer.output()) ? nullptr
                                                             : "float tensors are expected";
}

// The attributes are empty, or the exponents of the operand and then of the result per channel.
const char* check_unary(const Layer& layer) {
  if (layer.function == Function::None) return "a function is missing";
  if (const char* reason = check_floats(layer)) return reason;
  const int64_t words = static_cast<int64_t>(layer.attributes.size());
  if (words != 0 && words != 2 * channels_of(layer.output()))
    return "two exponents for each channel are expected";
  for (uint32_t word : layer.attributes)
    if (std::abs(static_cast<int64_t>(static_cast<int32_t>(word))) > 64)
      return "an exponent is out of range";
  return nullptr;
}

// The number of entries, then a single table or a table per channel, which the loader has resolved.
const char* check_lookup(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.storage == Storage::I8 && out.storage == Storage::I8 && layer.attributes.empty())
    return nullptr;
  const bool wide = in.storage == Storage::I16;
  const bool looked_up = wide || in.storage == Storage::I8 || in.storage == Storage::U8;
  const bool made = out.storage == Storage::I8 || out.storage == Storage::I16 || !out.quantized();
  if (layer.attributes.empty() || !looked_up || !made) return "int8 is expected";
  if (layer.attributes[0] > (wide ? 1u << 16 : 256u)) return "the tables are too long";
  if (layer.tables.size() != 1 && static_cast<int64_t>(layer.tables.size()) != channels_of(out))
    return "a table per channel is expected";
  return nullptr;
}

const char* check_shift_swish(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if ((in.storage != Storage::I8 && in.storage != Storage::I16) || in.zero_point != 0 ||
      !out.quantized())
    return "int8 or int16 without zero point is expected";
  const int64_t words = static_cast<int64_t>(layer.attributes.size());
  if (words != 5 && words != 5 * channels_of(out))
    return "five bends for each channel are expected";
  for (uint32_t bend : layer.attributes)
    if (bend >= 1u << 15) return "a bend has at most 15 bits";
  return layer.requant.multiplier == 1 ? check_requant(layer) : "it rescales by a shift";
}

const char* check_softmax(const Layer& layer) {
  return layer.attributes[0] < layer.output().rank ? check_floats(layer)
                                                   : "the axis does not exist";
}

const char* check_quantize(const Layer& layer) {
  return is_float(layer.input()) && layer.output().quantized() ? nullptr
                                                               : "float to quantized is expected";
}

const char* check_dequantize(const Layer& layer) {
  return layer.input().quantized() && is_float(layer.output()) ? nullptr
                                                               : "quantized to float is expected";
}

const char* check_requantize(const Layer& layer) {
  return layer.input().quantized() && layer.output().quantized() ? check_requant(layer)
                                                                 : "quantized tensors are expected";
}

const Operation OPERATIONS[] = {
    {4, 1, ANY, SAME_SHAPE | FUNCTION, check_unary, always<unary>, in_place},
    {6, 1, ANY, SAME_SHAPE | LOOKUP, check_lookup, always<lookup>, in_place,
     accept_as_it_is, operand_fits, no_scratch, Circuit::Table},
    {7, 1, 1, SAME_SHAPE, check_softmax, always<softmax>, in_place},
    {12, 1, 0, SAME_SHAPE, check_quantize, always<quantize>, in_place},
    {13, 1, 0, SAME_SHAPE, check_dequantize, always<dequantize>},
    {14, 1, 0, SAME_SHAPE | REQUANT, check_requantize, always<requantize>, in_place},
    {17, 1, ANY, SAME_SHAPE | REQUANT, check_shift_swish, always<shift_swish>, in_place},
};

}  // namespace

const Family ELEMENTWISE(OPERATIONS);

}  // namespace ceras
