// A board without a board: the core in Verilog, simulated, behind files of registers and memory.
//
//   mock_device FOLDER REGISTERS BASE [--hang | --stuck | --error | --other]
//
// serves FOLDER (test/backends/device/folder.py): the page at REGISTERS of `mem` is the core's, and
// `dev/udmabuf0` is memory that it sees at BASE. --hang never ends a launch, --stuck only if it is
// aborted; --error: the memory answers a read of the second layer with an error; --other is no core.
// Where `dirty` exists, the lines in it are put over what a launch writes, as caches may at any time.
#include "mock_files.h"
#include "simulation.h"

namespace {

using namespace ceras::registers;

constexpr uint64_t ERROR_AT = 100;  // the burst
constexpr uint32_t STARTS = START | START_QUEUE, FINISHED = DONE | IDLE | READY;  // of `control`

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string folder = argv[1], mode = argc > 4 ? argv[4] : "";
  const uint64_t base = std::strtoull(argv[3], nullptr, 0);
  const Mapped page = map(folder + "/mem", std::strtoull(argv[2], nullptr, 0), PAGE);
  const Mapped memory = map(folder + "/dev/udmabuf0", 0, 0);
  volatile uint32_t* words = reinterpret_cast<volatile uint32_t*>(page.data);
  ceras::Simulation core;
  core.memory.stall = 10;
  words[IDENTITY] = mode == "--other" ? 0xdeadbeef : VERSION;
  words[BUILT_LANES] = static_cast<uint32_t>(core.size().lanes);
  words[BUILT_BUS_BYTES] = static_cast<uint32_t>(core.size().bus_bytes);
  words[BUILT_LINE_BYTES] = static_cast<uint32_t>(core.size().line_bytes);
  words[BUILT_RESULT_BYTES] = static_cast<uint32_t>(core.size().result_bytes);
  words[BUILT_TABLES] = static_cast<uint32_t>(core.size().tables);
  words[CONTROL] = FINISHED;
  std::printf("ready\n");
  std::fflush(stdout);
  for (;; usleep(50)) {
    const uint32_t control = words[CONTROL];
    if (mode == "--stuck" && control == ABORT) {
      words[STATUS] = ABORTED;
      words[CONTROL] = FINISHED;
    }
    if ((control & STARTS) == 0 || control == FINISHED || mode == "--hang" || mode == "--stuck")
      continue;
    const std::vector<uint8_t> before(memory.data, memory.data + memory.bytes);
    core.begin();
    core.show_at(base, memory.data, static_cast<int64_t>(memory.bytes));
    if (mode == "--error") core.memory.failing_read = ERROR_AT;
    for (uint32_t i = 0; i < WORDS; ++i) core.write(LAYER + i, words[LAYER + i]);
    for (const uint32_t word : {QUEUE_ADDRESS, QUEUE_ADDRESS_HIGH, QUEUE_LENGTH})
      core.write(word, words[word]);
    core.write(CONTROL, control);
    core.wait();
    for (const uint32_t word : {CYCLES, STATUS, LAUNCHES}) words[word] = core.read(word);
    std::printf("%u layers\n", words[LAUNCHES]);
    std::fflush(stdout);
    put_dirty_lines(folder + "/dirty", before, memory);
    __sync_synchronize();
    words[CONTROL] = FINISHED;
  }
}
