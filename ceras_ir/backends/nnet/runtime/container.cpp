#include "container.h"

#include <array>

namespace ceras {
namespace {

constexpr std::array<uint32_t, 256> crc_table() {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t c = i;
    for (int bit = 0; bit < 8; ++bit) c = (c >> 1) ^ ((c & 1) ? 0xedb88320u : 0u);
    table[i] = c;
  }
  return table;
}

constexpr std::array<uint32_t, 256> CRC_TABLE = crc_table();

// CRC-32 of IEEE 802.3, as in zip and PNG.
uint32_t crc32(uint32_t crc, const uint8_t* data, uint64_t size) {
  crc = ~crc;
  for (uint64_t i = 0; i < size; ++i) crc = CRC_TABLE[(crc ^ data[i]) & 0xff] ^ (crc >> 8);
  return ~crc;
}

uint64_t aligned(uint64_t offset) {
  return (offset + SECTION_ALIGNMENT - 1) / SECTION_ALIGNMENT * SECTION_ALIGNMENT;
}

}  // namespace

const char* open_container(const uint8_t* data, uint64_t size, Container& container) {
  const Bytes file{data, size};
  constexpr uint64_t TABLE_END = HEADER_BYTES + SECTION_COUNT * SECTION_ENTRY_BYTES;
  if (!file.holds(0, sizeof MAGIC) || std::memcmp(data, MAGIC, sizeof MAGIC) != 0)
    return "not an nnet file";
  if (!file.holds(0, HEADER_BYTES)) return "the header is truncated";
  const uint32_t version = file.at<uint32_t>(8);
  if (version >= 1 && version < OLDEST_VERSION)
    return "the file is of an older version of the format; compile the model again";
  if (version < OLDEST_VERSION || version > VERSION) return "unknown format version";
  container.version = version;
  if (file.at<uint32_t>(12) != 0) return "unknown header flags";
  if (file.at<uint64_t>(16) != size) return "the file size differs from the header's";
  if (file.at<uint32_t>(24) != SECTION_COUNT) return "wrong number of sections";
  if (!file.holds(0, TABLE_END)) return "the section table is truncated";
  uint32_t crc = crc32(0, data, 28);
  crc = crc32(crc, data + HEADER_BYTES, TABLE_END - HEADER_BYTES);
  if (file.at<uint32_t>(28) != crc) return "the header checksum does not match";

  uint64_t end = TABLE_END;
  for (uint32_t type = 1; type <= SECTION_COUNT; ++type) {
    const uint64_t entry = HEADER_BYTES + (type - 1) * SECTION_ENTRY_BYTES;
    const uint64_t offset = file.at<uint64_t>(entry + 8);
    const uint64_t bytes = file.at<uint64_t>(entry + 16);
    if (file.at<uint32_t>(entry) != type) return "sections are missing or out of order";
    if (offset != aligned(end) || !file.holds(offset, bytes))
      return "a section has the wrong offset";
    for (uint64_t i = end; i < offset; ++i)
      if (data[i] != 0) return "bytes between sections are not zero";
    if (file.at<uint32_t>(entry + 4) != crc32(0, data + offset, bytes))
      return "a section checksum does not match";
    container.sections[type] = {data + offset, bytes};
    end = offset + bytes;
  }
  return end == size ? nullptr : "bytes follow the last section";
}

}  // namespace ceras
