// Functions of rows: normalization, and softmax and normalization of integers.
#include <cmath>

#include "checks.h"
#include "float_functions.h"
#include "integers.h"

namespace ceras {
namespace {

constexpr int64_t MAX_EXTENT = 1 << 16, MAX_ENTRIES = 1 << 12;
constexpr int64_t MIN_EPSILON = 1 << 10, MAX_EPSILON = int64_t{1} << 62;
constexpr int FRACTION = 12;  // fractional bits of a normalized value

void normalize(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const float *scale = layer.operands[1]->floats(), epsilon = as_float(layer.attributes[0]);
  const float* bias = layer.operands.size() > 2 ? layer.operands[2]->floats() : nullptr;
  const int64_t n = out.row;
  for (int64_t row = 0; row < out.elements / n; ++row) {
    const float* x = in.floats() + row * in.pitch;
    float* y = out.float_target() + row * out.pitch;
    float mean = x[0];
    for (int64_t k = 1; k < n; ++k) mean += x[k];
    mean /= static_cast<float>(n);
    for (int64_t k = 0; k < n; ++k) y[k] = layer.attributes[1] != 0 ? x[k] - mean : x[k];
    float power = y[0] * y[0];
    for (int64_t k = 1; k < n; ++k) power += y[k] * y[k];
    const float deviation = std::sqrt(power / static_cast<float>(n) + epsilon);
    for (int64_t k = 0; k < n; ++k) {
      y[k] = y[k] / deviation * scale[k];
      if (bias != nullptr) y[k] += bias[k];
    }
  }
}

int log2_of(uint64_t x) {
  int result = 0;
  while (x >>= 1) ++result;
  return result;
}

// The integer part of the square root.
int64_t root_of(uint64_t x) {
  uint64_t root = 0;
  for (uint64_t bit = uint64_t{1} << 31; bit != 0; bit >>= 1)
    if ((root | bit) * (root | bit) <= x) root |= bit;
  return static_cast<int64_t>(root);
}

// Shift to the left, or to the right with rounding half up.
int64_t shifted(int64_t x, int shift) {
  return shift >= 0 ? x * (int64_t{1} << shift) : round_shift(x, -shift, Rounding::HalfUp);
}

void integer_normalize(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const int16_t* scale = reinterpret_cast<const int16_t*>(layer.operands[1]->data);
  const int32_t* bias = reinterpret_cast<const int32_t*>(layer.operands[2]->data);
  const int64_t n = out.row;
  const bool centred = layer.attributes[2] != 0;
  const int64_t epsilon =
      int64_t{layer.attributes[0]} + (int64_t{layer.attributes[1]} << 32);
  const int bits = in.storage == Storage::I8 ? 8 : 16;
  const int octaves = n > 1 ? log2_of(static_cast<uint64_t>(n - 1)) + 1 : 0;
  const int up = centred ? std::min(5, (62 - 3 * octaves - 2 * bits) >> 1) : 5;
  const int g = 14 - log2_of(static_cast<uint64_t>(n)) / 2;
  const int64_t root_n = root_of(static_cast<uint64_t>(n) << 2 * g);
  for (int64_t row = 0; row < out.elements / n; ++row) {
    int64_t values[CHUNK], sum = 0, power = 0;
    const auto each = [&](auto body) {
      for (int64_t at = 0; at < n; at += CHUNK) {
        const int64_t count = std::min(CHUNK, n - at);
        read_centred(in, row * in.pitch + at, count, values);
        body(at, count);
      }
    };
    const auto deviation = [&](int64_t q) { return shifted(centred ? q * n - sum : q, up); };
    each([&](int64_t, int64_t count) {
      for (int64_t i = 0; i < count; ++i) sum += values[i];
    });
    each([&](int64_t, int64_t count) {
      for (int64_t i = 0; i < count; ++i) power += deviation(values[i]) * deviation(values[i]);
    });
    const uint64_t w = static_cast<uint64_t>(power + epsilon);
    const int t = (log2_of(w) - 30) >> 1;
    const int64_t m = (root_n << 17) / root_of(t >= 0 ? w >> 2 * t : w << -2 * t);
    each([&](int64_t at, int64_t count) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t z = shifted(deviation(values[i]) * m, FRACTION - 17 - g - t);
        values[i] = z * scale[at + i] + bias[at + i];
      }
      requantize(values, count, layer.requant);
      write_integers(out, row * out.pitch + at, count, values);
    });
  }
}

template <class Stored, class Made>
void softmax_of(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const int32_t* table = reinterpret_cast<const int32_t*>(layer.operands[1]->data);
  const int64_t last = layer.operands[1]->elements - 1;
  const uint32_t axis = layer.attributes[0];
  const int64_t length = out.dims[axis];
  int64_t inner = 1;
  for (uint32_t i = axis + 1; i < out.rank; ++i) inner *= out.dims[i];
  int64_t from[MAX_RANK] = {}, to[MAX_RANK] = {};
  strides_of(in, from);
  strides_of(out, to);
  const int64_t a = from[axis], b = to[axis];
  for (int64_t row = 0; row < out.elements / length; ++row) {
    const int64_t start = row / inner * length * inner + row % inner;
    const Stored* x =
        reinterpret_cast<const Stored*>(in.data) + start / in.row * in.pitch + start % in.row;
    Made* y = reinterpret_cast<Made*>(out.target) + start / out.row * out.pitch + start % out.row;
    int64_t most = x[0], sum = 0;
    for (int64_t i = 1; i < length; ++i) most = std::max<int64_t>(most, x[i * a]);
    for (int64_t i = 0; i < length; ++i) sum += table[std::min(most - x[i * a], last)];
    const int64_t reciprocal = INT32_MAX / sum;
    for (int64_t i = 0; i < length; ++i) {
      const int64_t e = table[std::min(most - x[i * a], last)];
      y[i * b] = static_cast<Made>(requantize(e * reciprocal, layer.requant));
    }
  }
}

void integer_softmax(const Layer& layer, Scratch&) {
  const bool narrow = layer.output().storage == Storage::I8;
  if (layer.input().storage == Storage::I8)
    return narrow ? softmax_of<int8_t, int8_t>(layer) : softmax_of<int8_t, int16_t>(layer);
  return narrow ? softmax_of<int16_t, int8_t>(layer) : softmax_of<int16_t, int16_t>(layer);
}

// Check the constants for the elements of a row.
const char* check_channels(const Layer& layer) {
  for (size_t i = 1; i < layer.operands.size(); ++i) {
    const Tensor& channels = *layer.operands[i];
    if (channels.rank != 1 || channels.dims[0] != channels_of(layer.output()))
      return "the channels differ";
    if (channels.has_gaps() || channels.zero_point != 0) return "the constants have gaps";
  }
  return nullptr;
}

const char* check_normalize(const Layer& layer) {
  if (layer.operands.size() < 2 || layer.operands.size() > 3) return "2 or 3 operands are expected";
  if (!same_shape(layer.input(), layer.output()) || layer.output().rank == 0)
    return "equal shapes are expected";
  for (const Tensor* tensor : layer.operands)
    if (!is_float(*tensor)) return "float tensors are expected";
  if (!is_float(layer.output())) return "float tensors are expected";
  if (layer.attributes[1] > 1) return "unknown attribute";
  return check_channels(layer);
}

const char* check_integers(const Layer& layer, int64_t extent) {
  for (const Tensor* tensor : {&layer.input(), &layer.output()})
    if (tensor->storage != Storage::I8 && tensor->storage != Storage::I16)
      return "int8 or int16 is expected";
  if (extent > MAX_EXTENT) return "the rows are too long";
  if (layer.requant.multiplier != 1 || layer.requant.rounding != Rounding::HalfUp)
    return "a requantization by a shift that rounds half up is expected";
  return check_requant(layer);
}

const char* check_integer_normalize(const Layer& layer) {
  if (!same_shape(layer.input(), layer.output()) || layer.output().rank == 0)
    return "equal shapes are expected";
  if (layer.operands[1]->storage != Storage::I16 || layer.operands[2]->storage != Storage::I32)
    return "constants of 16 and 32 bits are expected";
  if (const char* reason = check_channels(layer)) return reason;
  const uint64_t epsilon = layer.attributes[0] + (uint64_t{layer.attributes[1]} << 32);
  if (epsilon < MIN_EPSILON || epsilon > MAX_EPSILON) return "the epsilon is out of range";
  if (layer.attributes[2] > 1) return "unknown attribute";
  return check_integers(layer, layer.output().row);
}

const char* check_integer_softmax(const Layer& layer) {
  const Tensor &out = layer.output(), &table = *layer.operands[1];
  if (!same_shape(layer.input(), out)) return "the shapes differ";
  if (layer.attributes[0] >= out.rank) return "the axis does not exist";
  if (!table.constant() || table.storage != Storage::I32 || table.rank != 1 ||
      table.zero_point != 0 || table.elements < 2 || table.elements > MAX_ENTRIES)
    return "a constant table of 32 bits is expected";
  const int32_t* entries = reinterpret_cast<const int32_t*>(table.data);
  for (int64_t i = 0; i < table.elements; ++i)
    if (entries[i] < 0 || entries[i] > 1 << 15) return "the table is out of range";
  if (entries[0] != 1 << 15) return "the table must begin with 2^15";
  if (layer.requant.shift < 1) return "a shift to the right is expected";
  return check_integers(layer, out.dims[layer.attributes[0]]);
}

const Operation OPERATIONS[] = {
    {19, ANY, 2, PLAIN, check_normalize, always<normalize>},
    {20, 3, 3, REQUANT, check_integer_normalize, always<integer_normalize>},
    {21, 2, 1, REQUANT, check_integer_softmax, always<integer_softmax>},
};

}  // namespace

const Family ROWS(OPERATIONS);

}  // namespace ceras
