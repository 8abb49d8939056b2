// The lanes of the multiplier array: 16 output channels in parallel, with a group of products per
// step.
//
// All variants compute equal sums. The lanes are a vector of the processor, and a group is the
// number of products of a multiply-add instruction (lane_products.h). CERAS_PLAIN uses no
// intrinsics.
#pragma once

#include <cstdint>

#if !defined(CERAS_PLAIN) && defined(__SSE2__)
#define CERAS_VECTORS 1
#endif
#if defined(CERAS_VECTORS) && defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define CERAS_PRODUCTS_OF_FOUR 1
#endif

namespace ceras {

constexpr int LANES = 16;

#if defined(CERAS_PRODUCTS_OF_FOUR)

// Groups of four. The instruction requires an unsigned factor: 128 is added to it, and 128 times
// the sum of the weights is subtracted at the end, both modulo 2^32.
constexpr int GROUP = 4;
using Number = uint8_t;
using Weight = int8_t;

inline Number number(int8_t value) { return static_cast<uint8_t>(value ^ -128); }

#else

// Pairs of 16-bit integers, for which other instruction sets have multiply-add instructions.
constexpr int GROUP = 2;
using Number = int16_t;
using Weight = Number;

inline Number number(int8_t value) { return value; }

#endif

}  // namespace ceras
