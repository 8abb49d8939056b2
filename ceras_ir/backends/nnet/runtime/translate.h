// Look up bytes in a table of 256 entries, 64 at a time if the processor has an instruction.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__AVX512VBMI__) && defined(__AVX512BW__)
#include <immintrin.h>
#endif

namespace ceras {

// to[i] = table[from[i] + 128], for signed bytes; `to` may be `from`.
class Translation {
 public:
  explicit Translation(const uint8_t* table) {
    // The index is the unsigned byte.
    for (int i = 0; i < 256; ++i) entries_[i] = table[i ^ 128];
  }

  void run(const uint8_t* from, uint8_t* to, int64_t count) const {
    int64_t i = 0;
#if defined(__AVX512VBMI__) && defined(__AVX512BW__)
    const __m512i first = part(0), second = part(64), third = part(128), fourth = part(192);
    for (; i < count; i += 64) {
      const int64_t rest = count - i;
      const __mmask64 some = rest < 64 ? (uint64_t{1} << rest) - 1 : ~uint64_t{0};
      const __m512i index = _mm512_maskz_loadu_epi8(some, from + i);
      const __m512i low = _mm512_permutex2var_epi8(first, index, second);
      const __m512i high = _mm512_permutex2var_epi8(third, index, fourth);
      const __m512i found = _mm512_mask_blend_epi8(_mm512_movepi8_mask(index), low, high);
      _mm512_mask_storeu_epi8(to + i, some, found);
    }
#else
    // Eight bytes in a word: compilers would gather single bytes, which is slower.
    for (; i + 8 <= count; i += 8) {
      uint64_t word, found = 0;
      std::memcpy(&word, from + i, sizeof word);
      for (int j = 0; j < 64; j += 8) found |= uint64_t{entries_[word >> j & 255]} << j;
      std::memcpy(to + i, &found, sizeof found);
    }
    for (; i < count; ++i) to[i] = entries_[from[i]];
#endif
  }

 private:
#if defined(__AVX512VBMI__) && defined(__AVX512BW__)
  __m512i part(int start) const { return _mm512_loadu_si512(entries_ + start); }
#endif

  uint8_t entries_[256];
};

}  // namespace ceras
