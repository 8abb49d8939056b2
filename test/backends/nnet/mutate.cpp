// Load, and run where that is accepted, many damaged copies of a file, in one process.
//
//   mutate FILE flips          every bit flip and every truncation; none may be accepted
//   mutate FILE reseal N SEED  N copies with random bytes changed and checksums made right again;
//                              prints how many were accepted and run
//   mutate FILES verdicts      for each file in FILES (u64 bytes, data), a line with the reason for
//                              which it is refused, or an empty line
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "ceras.h"

namespace {

using Bytes = std::vector<uint8_t>;

// Exactly as large as the file, so that the address sanitizer sees a read past its end.
void* exact_copy(const uint8_t* bytes, size_t size) {
  void* copy = nullptr;
  if (posix_memalign(&copy, 64, size > 0 ? size : 1) != 0) std::abort();
  if (size > 0) std::memcpy(copy, bytes, size);
  return copy;
}

bool accepts(const uint8_t* bytes, size_t size) {
  void* copy = exact_copy(bytes, size);
  ceras_model* model = nullptr;
  char message[200];
  const bool accepted = ceras_load(copy, size, &model, message, sizeof message) == CERAS_OK;
  if (accepted) {
    for (size_t i = 0; i < ceras_input_count(model); ++i)
      std::memset(ceras_input(model, i), 0x41, ceras_input_info(model, i).bytes);
    ceras_transfers(model, [](void*, const ceras_crossing*) {}, nullptr);
    ceras_run(model);
    ceras_reset(model);
    ceras_unload(model);
  }
  std::free(copy);
  return accepted;
}

uint32_t crc32(const uint8_t* data, size_t size, uint32_t crc = 0) {
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

void reseal(Bytes& data) {
  for (size_t entry = 32; entry < 344; entry += 24) {
    uint64_t place[2];
    std::memcpy(place, &data[entry + 8], sizeof place);
    const uint32_t crc = crc32(&data[place[0]], place[1]);
    std::memcpy(&data[entry + 4], &crc, 4);
  }
  const uint32_t crc = crc32(&data[32], 312, crc32(data.data(), 28));
  std::memcpy(&data[28], &crc, 4);
}

int flips(Bytes data) {
  if (!accepts(data.data(), data.size())) return 3;
  for (size_t bit = 0; bit < 8 * data.size(); ++bit) {
    data[bit / 8] = static_cast<uint8_t>(data[bit / 8] ^ 1u << bit % 8);
    if (accepts(data.data(), data.size())) return 1;
    data[bit / 8] = static_cast<uint8_t>(data[bit / 8] ^ 1u << bit % 8);
  }
  for (size_t size = 0; size < data.size(); ++size)
    if (accepts(data.data(), size)) return 2;
  return 0;
}

int resealed(const Bytes& original, long count, unsigned long seed) {
  std::mt19937 random(static_cast<uint32_t>(seed));
  const uint8_t values[] = {0, 1, 2, 3, 4, 7, 8, 16, 63, 64, 127, 128, 255};
  long accepted = 0;
  for (long i = 0; i < count; ++i) {
    Bytes data = original;
    for (uint32_t changes = 1 + random() % 3; changes > 0; --changes) {
      // Sections 1 to 8 hold the tables; what follows are strings and constants.
      uint64_t end;
      std::memcpy(&end, &data[32 + 24 * 8 + 8], sizeof end);
      uint8_t& byte = data[344 + random() % (end - 344)];
      byte = random() % 2 ? values[random() % sizeof values] : static_cast<uint8_t>(random());
    }
    reseal(data);
    accepted += accepts(data.data(), data.size());
  }
  std::printf("%ld\n", accepted);
  return 0;
}

int verdicts(std::FILE* files) {
  uint64_t size;
  Bytes data;
  while (std::fread(&size, sizeof size, 1, files) == 1) {
    data.resize(size);
    if (std::fread(data.data(), 1, size, files) != size) return 5;
    void* copy = exact_copy(data.data(), size);
    ceras_model* model = nullptr;
    char message[200];
    if (ceras_load(copy, size, &model, message, sizeof message) == CERAS_OK) {
      ceras_unload(model);
      message[0] = 0;
    }
    std::printf("%s\n", message);
    std::free(copy);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  Bytes data(1 << 20);
  std::FILE* file = std::fopen(argv[1], "rb");
  if (file == nullptr) return 4;
  if (argc == 3 && std::strcmp(argv[2], "verdicts") == 0) {
    const int status = verdicts(file);
    std::fclose(file);
    return status;
  }
  data.resize(std::fread(data.data(), 1, data.size(), file));
  std::fclose(file);
  if (argc == 3) return flips(data);
  return resealed(data, std::atol(argv[3]), std::strtoul(argv[4], nullptr, 10));
}
