// The device under VTA's own hardware test (tests/hardware of its sources): memory at BASE, and
// registers that hand a started stream to a command, which is to leave the image after the run.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {
const uint32_t BASE = 0x10000000;
const size_t SIZE = 1 << 23, PAGE = 4096;
alignas(4096) unsigned char memory[SIZE];
size_t used = 0;
unsigned char registers[4][0x1000];
int number = 0;

uint32_t value(int module, unsigned at) {
  uint32_t found;
  std::memcpy(&found, &registers[module][at], sizeof found);
  return found;
}

void write_file(const std::string& name, const unsigned char* data, size_t size) {
  FILE* file = std::fopen(name.c_str(), "wb");
  if (file == nullptr || std::fwrite(data, 1, size, file) != size) std::exit(3);
  std::fclose(file);
}

// The modules are a page apart: fetch, load, compute, store.
void run() {
  const uint32_t count = value(0, 0x10), at = value(0, 0x18) - BASE;
  const std::string name = "stream_" + std::to_string(number++);
  write_file(name + ".insns", memory + at, size_t(count) * 16);
  write_file(name + ".dram", memory, SIZE);
  char pointers[128];
  std::snprintf(pointers, sizeof pointers, "inp=%#x,wgt=%#x,uop=%#x,acc=%#x,out=%#x",
                value(1, 0x10), value(1, 0x18), value(2, 0x20), value(2, 0x28), value(3, 0x10));
  write_file(name + ".pointers", reinterpret_cast<unsigned char*>(pointers), std::strlen(pointers));
  const char* command = std::getenv("VTA_PEERS_RUN");
  if (command == nullptr || std::system((std::string(command) + " " + name).c_str()) != 0) return;
  FILE* after = std::fopen((name + ".after").c_str(), "rb");
  if (after == nullptr || std::fread(memory, 1, SIZE, after) != SIZE) std::exit(3);
  std::fclose(after);
}
}  // namespace

extern "C" {
void* cma_alloc(size_t size, int) {
  void* found = memory + used;
  used += (size + PAGE - 1) / PAGE * PAGE;
  return used <= SIZE ? found : nullptr;
}
void cma_free(void*) {}
uint32_t cma_get_phy_addr(void* data) {
  return BASE + uint32_t(static_cast<unsigned char*>(data) - memory);
}
void cma_flush_cache(void*, unsigned, int) {}
void cma_invalidate_cache(void*, unsigned, int) {}
void* VTAMemAlloc(size_t size, int cached) { return cma_alloc(size, cached); }
void VTAMemFree(void*) {}
void* VTAMapRegister(uint32_t address) { return registers[address >> 12 & 3]; }
void VTAUnmapRegister(void*) {}
void VTAWriteMappedReg(void* module, uint32_t offset, uint32_t data) {
  std::memcpy(static_cast<unsigned char*>(module) + offset, &data, sizeof data);
  if (module == registers[3] && offset == 0) run();  // Store is the last that is started.
}
uint32_t VTAReadMappedReg(void*, uint32_t) { return 1; }
}
