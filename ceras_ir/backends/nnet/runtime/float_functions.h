// Elementwise float32 functions as fixed sequences of float32 operations.
//
// The same operations in the same order as ceras_ir/interpreters/float_functions.py, so compile
// without contraction into fused multiply-add (-ffp-contract=off).
// "functions.h" is made of the C texts of that folder: `ceras-nnet engine FOLDER` writes it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "format.h"
#include "strict_floats.h"

namespace ceras {

static_assert(std::numeric_limits<float>::is_iec559, "IEEE 754 float32 is needed");

// The bits of an attribute.
inline float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// As numpy: a NaN on either side is the result.
inline float maximum(float a, float b) { return (a >= b || a != a) ? a : b; }

#include "functions.h"

}  // namespace ceras
