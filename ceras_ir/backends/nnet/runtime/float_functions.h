// Elementwise float32 functions as fixed sequences of float32 operations.
//
// The same operations in the same order as ceras_ir/interpreters/float_functions.py, which is
// why this must be compiled without contraction into fused multiply-add (-ffp-contract=off).
#pragma once

#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#include "format.h"

namespace ceras {

static_assert(FLT_EVAL_METHOD == 0, "float32 operations must round to float32");
static_assert(std::numeric_limits<float>::is_iec559, "IEEE 754 float32 is needed");

// As numpy: a NaN on either side is the result.
inline float maximum(float a, float b) { return (a >= b || a != a) ? a : b; }
inline float minimum(float a, float b) { return (a <= b || a != a) ? a : b; }

constexpr float EXP_COEFFICIENTS[6] = {0.000198909908f, 0.001393365f, 0.00833331093f,
                                       0.0416664649f,   0.166666667f, 0.5f};

inline float exp_polynomial(float r) {
  float p = EXP_COEFFICIENTS[0];
  for (int i = 1; i < 6; ++i) p = p * r + EXP_COEFFICIENTS[i];
  return p * (r * r) + r;
}

inline float exponential(float x) {
  constexpr float LOW = -87.33654f, HIGH = 88.37626f;
  constexpr float LOG2_E = 1.44269504f, LN2_HIGH = 0.693359375f, LN2_LOW = -2.12194440e-4f;
  if (x > HIGH) return std::numeric_limits<float>::infinity();
  if (x < LOW) return 0.0f;
  if (x != x) return x;
  const float n = std::floor(x * LOG2_E + 0.5f);
  const float r = (x - n * LN2_HIGH) - n * LN2_LOW;
  const uint32_t bits = static_cast<uint32_t>(static_cast<int32_t>(n) + 127) << 23;
  float scale;
  std::memcpy(&scale, &bits, sizeof scale);
  return (exp_polynomial(r) + 1.0f) * scale;
}

inline float exp_minus_one(float x) {
  return std::fabs(x) < 0.34375f ? exp_polynomial(x) : exponential(x) - 1.0f;
}

inline float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }

inline float hyperbolic_tangent(float x) {
  const float t = exp_minus_one(-2.0f * std::fabs(x)), y = t / (t + 2.0f);
  return x < 0.0f ? y : -y;
}

inline float apply(Function function, const float* p, float x) {
  switch (function) {
    case Function::None:
      return x;
    case Function::Relu:
      return maximum(x, 0.0f);
    case Function::Clip:
      return minimum(maximum(x, p[0]), p[1]);
    case Function::LeakyRelu:
      return x >= 0.0f ? x : p[0] * x;
    case Function::Sigmoid:
      return sigmoid(x);
    case Function::Tanh:
      return hyperbolic_tangent(x);
    case Function::Swish:
      return x * sigmoid(x);
    case Function::HardSigmoid:
      return minimum(maximum(p[0] * x + p[1], 0.0f), 1.0f);
    case Function::HardSwish:
      return x * minimum(maximum(x + 3.0f, 0.0f), 6.0f) / 6.0f;
    case Function::Exp:
      return exponential(x);
  }
  return x;
}

}  // namespace ceras
