// A board without a board: a circuit in Verilog, simulated, behind files of registers and memory.
//
//   mock_device FOLDER REGISTERS BASE [--hang | --stuck | --read-error | --write-error | --other]
//
// serves FOLDER (test/backends/device/folder.py): the page at REGISTERS of `mem` is that of the circuit,
// and `dev/udmabuf0` is memory that it sees at BASE. --hang never ends a launch, --stuck only after a
// reset; --read-error and --write-error: the memory answers the first burst with an error; --other is
// the circuit of another network. Where `dirty` exists, the lines in it are put over what a launch
// writes, as caches may at any time.
#include "mock_files.h"
#include "shell_top.h"

#include "circuit_registers.h"

namespace {

constexpr uint64_t PATIENCE = 10000000;  // cycles

// The registers that software can write.
std::vector<uint32_t> written_words(uint32_t outputs) {
  std::vector<uint32_t> words{REGISTER_INPUT_ADDRESS, REGISTER_INPUT_ADDRESS_HIGH,
                              REGISTER_INPUT_BYTES};
  for (uint32_t i = 0; i < outputs; ++i)
    for (uint32_t half = 0; half < 2; ++half)
      words.push_back(REGISTER_OUTPUTS + REGISTER_OUTPUT_WORDS * i + half);
  return words;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::string folder = argv[1], mode = argc > 4 ? argv[4] : "";
  const Mapped page = map(folder + "/mem", std::strtoull(argv[2], nullptr, 0), PAGE);
  const Mapped memory = map(folder + "/dev/udmabuf0", 0, 0);
  volatile uint32_t* words = reinterpret_cast<volatile uint32_t*>(page.data);
  AxiBench bench(std::strtoull(argv[3], nullptr, 0), memory.bytes);
  bench.reset();
  const uint32_t outputs = bench.get(REGISTER_BUILT_OUTPUTS);
  for (const uint32_t word : {REGISTER_IDENTITY, REGISTER_CONFIGURATION, REGISTER_BUILT_BUS_BYTES,
                              REGISTER_BUILT_OUTPUTS, REGISTER_BUILT_INPUT_BYTES})
    words[word] = bench.get(word);
  if (mode == "--other") words[REGISTER_CONFIGURATION] = 0x12345678;
  words[REGISTER_CONTROL] = BIT_IDLE;
  std::printf("ready\n");
  std::fflush(stdout);
  for (;; usleep(50)) {
    const uint32_t control = words[REGISTER_CONTROL];
    const bool starts = control == BIT_START;
    // START and BUSY are the same bit: until the mock answers, the circuit seems busy.
    if (starts && (mode == "--hang" || mode == "--stuck")) continue;
    if (!starts && (control != BIT_RESET || (mode == "--hang" && words[REGISTER_INPUT_BYTES] != 0)))
      continue;
    bench.memory.assign(memory.data, memory.data + memory.bytes);
    const std::vector<uint8_t> before = bench.memory;
    if (starts && mode == "--read-error") bench.bad_read = bench.read_bursts + 1;
    if (starts && mode == "--write-error") bench.bad_write = bench.write_bursts + 1;
    for (const uint32_t word : written_words(outputs))
      if (starts && bench.put(word, words[word]) != OKAY) fault("a register is refused", word);
    bench.put(REGISTER_CONTROL, control);
    const uint64_t start = bench.cycle;
    while ((bench.get(REGISTER_CONTROL) & BIT_IDLE) == 0)
      if (bench.cycle - start > PATIENCE) std::exit(3);
    for (size_t i = 0; i < memory.bytes; ++i)
      if (bench.memory[i] != before[i]) memory.data[i] = bench.memory[i];
    for (const uint32_t word :
         {REGISTER_STATUS, REGISTER_FRAMES_SENT, REGISTER_FRAMES_WRITTEN, REGISTER_CYCLES})
      words[word] = bench.get(word);
    put_dirty_lines(folder + "/dirty", before, memory);
    if (faults != 0) std::exit(4);
    std::printf("%u frames\n", words[REGISTER_FRAMES_SENT]);
    std::fflush(stdout);
    __sync_synchronize();
    words[REGISTER_CONTROL] = BIT_IDLE | BIT_DONE;
  }
}
