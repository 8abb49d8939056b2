// libFuzzer target: load any bytes, and run what is accepted.
//
// Checksums are made right first, so that the fuzzer reaches what is behind them. A model that
// is accepted runs once on inputs of one value; work is bounded by the size of what it reads.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "ceras.h"

namespace {

uint32_t crc32(const uint8_t* data, size_t size, uint32_t crc = 0) {
  crc = ~crc;
  for (size_t i = 0; i < size; ++i) {
    crc ^= data[i];
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

// Where the container is whole; elsewhere its own checks answer.
void reseal(std::vector<uint8_t>& data) {
  constexpr size_t kHeader = 32, kTables = 344, kEntry = 24;
  if (data.size() < kTables) return;
  const uint64_t size = data.size();
  std::memcpy(&data[16], &size, sizeof size);
  for (size_t entry = kHeader; entry < kTables; entry += kEntry) {
    uint64_t place[2];
    std::memcpy(place, &data[entry + 8], sizeof place);
    if (place[0] > size || place[1] > size - place[0]) continue;
    const uint32_t crc = crc32(data.data() + place[0], place[1]);
    std::memcpy(&data[entry + 4], &crc, sizeof crc);
  }
  const uint32_t crc = crc32(&data[kHeader], kTables - kHeader, crc32(data.data(), 28));
  std::memcpy(&data[28], &crc, sizeof crc);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  std::vector<uint8_t> data(bytes, bytes + size);
  reseal(data);
  // Exactly as large as the file, so that the address sanitizer sees a read past its end.
  void* copy = nullptr;
  if (posix_memalign(&copy, 64, size > 0 ? size : 1) != 0) std::abort();
  if (size > 0) std::memcpy(copy, data.data(), size);
  ceras_model* model = nullptr;
  char message[200];
  if (ceras_load(copy, size, &model, message, sizeof message) == CERAS_OK) {
    size_t touched = 0;
    for (size_t i = 0; i < ceras_input_count(model); ++i) {
      const size_t count = ceras_input_info(model, i).bytes;
      touched += count;
      std::memset(ceras_input(model, i), 0x41, count);
    }
    for (size_t i = 0; i < ceras_output_count(model); ++i)
      touched += ceras_output_info(model, i).bytes;
    ceras_transfers(model, [](void*, const ceras_crossing*) {}, nullptr);
    // What takes longer than the fuzzer's patience says nothing about bounds.
    if (touched < (size_t{1} << 20)) {
      ceras_run(model);
      ceras_reset(model);
    }
    ceras_unload(model);
  }
  std::free(copy);
  return 0;
}
