// What checks of single operations are made of.
#pragma once

#include "operation.h"

namespace ceras {

inline bool same_type(const Tensor& a, const Tensor& b) {
  return a.storage == b.storage && a.scale == b.scale && a.zero_point == b.zero_point;
}

inline bool is_float(const Tensor& t) { return !t.quantized(); }

// Whether its numbers are integers, or booleans, and no more.
inline bool is_plain(const Tensor& t) {
  return t.quantized() && t.scale == 1.0f && t.zero_point == 0;
}

// 8 or 16 bits: what fits the 64-bit arithmetic of every integer operator.
inline bool is_narrow(const Tensor& t) { return t.quantized() && bytes_of(t.storage) <= 2; }

inline bool is_byte(const Tensor& t) {
  return t.storage == Storage::I8 || t.storage == Storage::U8;
}

// Of the last dimension.
inline int64_t channels_of(const Tensor& t) { return t.rank == 0 ? 1 : t.dims[t.rank - 1]; }

const char* check_requant(const Layer& layer);

// All float without requantization, or all quantized with one.
const char* check_rescaling(const Layer& layer);

// Attributes from word `at` on, of a window whose kernel is known.
const char* prepare_window(Layer& layer, size_t at);
const char* check_window(const Layer& layer);

// The greatest magnitude of a stored number less the zero point.
int64_t magnitude(const Tensor& tensor);

// Sum of the magnitudes of the weights of one output channel, of `length` products.
int64_t row_magnitude(const Tensor& weights, int64_t row, int64_t length);

// |accumulator| <= bound: does its product stay within 64 bits, the rounding constant included?
const char* fits_64(int64_t bound, int64_t multiplier);

}  // namespace ceras
