// The files of a mock device: registers, memory, and lines that caches put over results.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

constexpr size_t LINE = 64, PAGE = 4096;

struct Mapped {
  uint8_t* data;
  size_t bytes;
};

// Map `bytes` bytes of a file from `at` on; 0: all.
Mapped map(const std::string& path, uint64_t at, size_t bytes) {
  const int file = open(path.c_str(), O_RDWR);
  struct stat found {};
  if (file < 0 || fstat(file, &found) != 0) std::exit(2);
  if (bytes == 0) bytes = static_cast<size_t>(found.st_size);
  void* data =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(at));
  if (data == MAP_FAILED) std::exit(2);
  close(file);
  return {static_cast<uint8_t*>(data), bytes};
}

// Put the lines of the file `path`, if it exists, over those that differ from `before`.
void put_dirty_lines(const std::string& path, const std::vector<uint8_t>& before, Mapped memory) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return;
  uint64_t at;
  uint8_t line[LINE];
  while (std::fread(&at, sizeof at, 1, file) == 1 && std::fread(line, LINE, 1, file) == 1)
    if (std::memcmp(memory.data + at, before.data() + at, LINE) != 0)
      std::memcpy(memory.data + at, line, LINE);
  std::fclose(file);
}

}  // namespace
