// Elementwise float32 functions as fixed sequences of float32 operations.
//
// The operations and their order are those of ceras_ir/interpreters/float_functions.py. Compile
// without contraction to fused multiply-add (-ffp-contract=off).
// "functions.h" is generated from the C text in that folder; `ceras-nnet engine FOLDER` writes it.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "format.h"
#include "strict_floats.h"

namespace ceras {

static_assert(std::numeric_limits<float>::is_iec559, "IEEE 754 float32 is needed");

// The float in the bits of an attribute.
inline float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// As in numpy, the result is NaN if an operand is NaN.
inline float maximum(float a, float b) { return (a >= b || a != a) ? a : b; }

#include "functions.h"

}  // namespace ceras
