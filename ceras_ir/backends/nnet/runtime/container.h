// Read the container: header, section table and checksums, with checks of bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "format.h"

namespace ceras {

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "nnet files hold little-endian weights, which this engine reads in place"
#endif

// The bytes of a section. Callers must check `holds` before reading.
struct Bytes {
  const uint8_t* data = nullptr;
  uint64_t size = 0;

  bool holds(uint64_t offset, uint64_t count) const {
    return offset <= size && count <= size - offset;
  }

  template <class T>
  T at(uint64_t offset) const {
    T value;
    std::memcpy(&value, data + offset, sizeof value);
    return value;
  }
};

struct Container {
  uint32_t version = 0;
  Bytes sections[SECTION_COUNT + 1];  // by section type; 0 is unused

  const Bytes& operator[](Section section) const { return sections[section]; }
};

// Return null, or the fault of the container.
const char* open_container(const uint8_t* data, uint64_t size, Container& container);

}  // namespace ceras
