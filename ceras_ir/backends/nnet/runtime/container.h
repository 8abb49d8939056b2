// The file as a container: header, section table and checksums, and bounds-checked reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "format.h"

namespace ceras {

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "nnet files hold little-endian weights, which this engine reads in place"
#endif

// Bytes of one section. Callers check `holds` before they read.
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
  Bytes sections[SECTION_COUNT + 1];  // by section type; 0 is unused

  const Bytes& operator[](Section section) const { return sections[section]; }
};

// Null, or what is wrong with the container.
const char* open_container(const uint8_t* data, uint64_t size, Container& container);

}  // namespace ceras
