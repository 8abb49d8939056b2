// Convert stored integers to 64 bits and back, and requantize them.
#pragma once

#include <algorithm>

#include "model.h"

namespace ceras {

constexpr int64_t CHUNK = 256;  // elements that an integer operator processes in a step

template <class Stored>
inline void widen(const uint8_t* data, int64_t start, int64_t count, int64_t* out) {
  const Stored* stored = reinterpret_cast<const Stored*>(data) + start;
  for (int64_t i = 0; i < count; ++i) out[i] = stored[i];
}

// Load `count` stored integers from `start`.
inline void read_integers(const Tensor& tensor, int64_t start, int64_t count, int64_t* out) {
  if (tensor.storage == Storage::Bool) {
    for (int64_t i = 0; i < count; ++i) out[i] = tensor.data[start + i] != 0;
    return;
  }
  with_integer(tensor.storage, [&](auto stored) {
    widen<decltype(stored)>(tensor.data, start, count, out);
  });
}

// The same minus the zero point.
inline void read_centred(const Tensor& tensor, int64_t start, int64_t count, int64_t* out) {
  read_integers(tensor, start, count, out);
  if (tensor.zero_point == 0) return;
  for (int64_t i = 0; i < count; ++i) out[i] -= tensor.zero_point;
}

template <class Stored>
inline void narrow(const int64_t* values, int64_t start, int64_t count, uint8_t* data) {
  Stored* stored = reinterpret_cast<Stored*>(data) + start;
  for (int64_t i = 0; i < count; ++i) stored[i] = static_cast<Stored>(values[i]);
}

// Store values that fit the storage, or the low bits of values.
inline void write_integers(const Tensor& tensor, int64_t start, int64_t count,
                           const int64_t* values) {
  if (tensor.storage == Storage::Bool) {
    for (int64_t i = 0; i < count; ++i) tensor.target[start + i] = values[i] != 0;
    return;
  }
  with_integer(tensor.storage, [&](auto stored) {
    narrow<decltype(stored)>(values, start, count, tensor.target);
  });
}

// value / 2**shift. Right shifts of negative numbers must be arithmetic; C++17 leaves that open.
static_assert((int64_t{-3} >> 1) == -2, "an arithmetic right shift is needed");

inline int64_t round_shift(int64_t value, int shift, Rounding rounding) {
  if (shift == 0) return value;
  const int64_t half = int64_t{1} << (shift - 1);
  switch (rounding) {
    case Rounding::HalfUp:
      return (value + half) >> shift;
    case Rounding::HalfAway:
      return value >= 0 ? (value + half) >> shift : -((half - value) >> shift);
    case Rounding::HalfEven: {
      const int64_t floor = value >> shift;
      const int64_t rest = value & ((half << 1) - 1);
      return floor + (rest > half || (rest == half && (floor & 1)));
    }
    default:
      return value >> shift;
  }
}

inline int64_t requantize(int64_t accumulator, const Requant& r) {
  const int64_t rounded =
      round_shift(accumulator * r.multiplier, r.shift, r.rounding) + r.zero_point;
  return std::min(std::max(rounded, r.low), r.high);
}

// Requantize `count` accumulators in place.
inline void requantize(int64_t* values, int64_t count, const Requant& r) {
  if (r.rounding == Rounding::HalfUp) {
    const int64_t half = r.shift > 0 ? int64_t{1} << (r.shift - 1) : 0;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t rounded = ((values[i] * r.multiplier + half) >> r.shift) + r.zero_point;
      values[i] = std::min(std::max(rounded, r.low), r.high);
    }
    return;
  }
  for (int64_t i = 0; i < count; ++i) values[i] = requantize(values[i], r);
}

}  // namespace ceras
