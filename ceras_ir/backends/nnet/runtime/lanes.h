// The lanes of the multiplier array: 16 output channels beside each other, a group of products in
// each at a time.
//
// The same sums everywhere. The lanes are a vector of the processor, and a group is what one of its
// instructions multiplies and adds (lane_products.h). CERAS_PLAIN leaves all instructions to the
// compiler.
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

// Groups of four. The instruction takes one factor without sign: 128 is added to it, and 128
// times the sum of the weights taken off in the end, both modulo 2^32.
constexpr int GROUP = 4;
using Number = uint8_t;
using Weight = int8_t;

inline Number number(int8_t value) { return static_cast<uint8_t>(value ^ -128); }

#else

// Pairs of 16-bit numbers, which is what the other instruction sets multiply best.
constexpr int GROUP = 2;
using Number = int16_t;
using Weight = Number;

inline Number number(int8_t value) { return value; }

#endif

}  // namespace ceras
