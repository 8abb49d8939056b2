// The parts of which the checks of operations consist.
#pragma once

#include "operation.h"

namespace ceras {

inline bool same_type(const Tensor& a, const Tensor& b) {
  return a.storage == b.storage && a.scale == b.scale && a.zero_point == b.zero_point;
}

inline bool is_float(const Tensor& t) { return !t.quantized(); }

// Return whether the elements are integers or booleans with scale 1 and no zero point.
inline bool is_plain(const Tensor& t) {
  return t.quantized() && t.scale == 1.0f && t.zero_point == 0;
}

// Return whether elements have 8 or 16 bits, which fits the 64-bit arithmetic of all operators.
inline bool is_narrow(const Tensor& t) { return t.quantized() && bytes_of(t.storage) <= 2; }

inline bool is_byte(const Tensor& t) {
  return t.storage == Storage::I8 || t.storage == Storage::U8;
}

// The extent of the last dimension.
inline int64_t channels_of(const Tensor& t) { return t.rank == 0 ? 1 : t.dims[t.rank - 1]; }

const char* check_requant(const Layer& layer);

// All tensors are float without requantization, or quantized with a requantization.
const char* check_rescaling(const Layer& layer);

// Read the attributes of a window from word `at` on. The kernel must be known.
const char* prepare_window(Layer& layer, size_t at);
const char* check_window(const Layer& layer);

// The maximum magnitude of a stored integer minus the zero point.
int64_t magnitude(const Tensor& tensor);

// The sum of the magnitudes of the weights of an output channel with `length` products.
int64_t row_magnitude(const Tensor& weights, int64_t row, int64_t length);

// Return whether the requantization of accumulators up to `bound` fits 64 bits, with rounding.
const char* fits_64(int64_t bound, int64_t multiplier);

}  // namespace ceras
