// Execute commands on the wrapper of a circuit. Each line of stdin is a command and up to three
// arguments; offsets are those of the memory at BASE.
//
//   set NAME VALUE            stall, latency, error, probes; bad_read and bad_write from now on
//   write WORD VALUE          print the response
//   read WORD                 print the response and the value
//   wait CYCLES               print 1 if the shell becomes idle within this time, otherwise 0
//   ticks CYCLES
//   irq                       print the interrupt
//   bus_reset                 reset the circuit, the shell and the memory port
//   load OFFSET FILE          copy a file to memory
//   save OFFSET BYTES FILE    copy memory to a file
//
// The exit status is 1 if a rule of the bus was violated.
#include <fstream>
#include <iostream>
#include <sstream>

#include "shell_top.h"

namespace {

constexpr uint64_t BASE = 0x310000000;
constexpr size_t BYTES = 1 << 20;
constexpr uint32_t CONTROL = 0, IDLE = 4;  // test_shell.py compares them with the package

std::vector<uint8_t> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void set(AxiBench& bench, const std::string& name, uint64_t value) {
  if (name == "stall") bench.stall = static_cast<int>(value);
  else if (name == "latency") bench.latency = static_cast<int>(value);
  else if (name == "error") bench.error = static_cast<unsigned>(value);
  else if (name == "probes") bench.probes = value != 0;
  else if (name == "seed") bench.random.seed(static_cast<uint32_t>(value));
  else if (name == "bad_read") bench.bad_read = value ? bench.read_bursts + value : 0;
  else if (name == "bad_write") bench.bad_write = value ? bench.write_bursts + value : 0;
  else fault("unknown setting " + name, value);
}

bool settles(AxiBench& bench, uint64_t limit) {
  for (const uint64_t start = bench.cycle; bench.cycle - start < limit;)
    if ((bench.get(CONTROL) & IDLE) != 0) {
      if (!bench.reads.empty() || !bench.writes.empty() || !bench.answers.empty())
        fault("the shell is idle before its transfers end", bench.cycle);
      return true;
    }
  return false;
}

}  // namespace

int main() {
  AxiBench bench(BASE, BYTES);
  bench.reset();
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command, first, second, third;
    words >> command >> first >> second >> third;
    const auto number = [](const std::string& text) { return std::stoull(text, nullptr, 0); };
    if (command == "set") {
      set(bench, first, number(second));
    } else if (command == "write") {
      std::cout << bench.put(static_cast<uint32_t>(number(first)),
                             static_cast<uint32_t>(number(second))) << '\n';
    } else if (command == "read") {
      uint32_t value = 0;
      const unsigned response = bench.get(static_cast<uint32_t>(number(first)), value);
      std::cout << response << ' ' << value << '\n';
    } else if (command == "wait") {
      std::cout << settles(bench, number(first)) << '\n';
    } else if (command == "ticks") {
      bench.ticks(number(first));
    } else if (command == "irq") {
      std::cout << int{bench.top.irq} << '\n';
    } else if (command == "bus_reset") {
      bench.reset();
    } else if (command == "load") {
      const std::vector<uint8_t> bytes = read_file(second);
      std::copy(bytes.begin(), bytes.end(), bench.memory.begin() + static_cast<long>(number(first)));
    } else if (command == "save") {
      std::ofstream(third, std::ios::binary)
          .write(reinterpret_cast<const char*>(bench.memory.data() + number(first)),
                 static_cast<std::streamsize>(number(second)));
    } else {
      fault("unknown command " + command, 0);
    }
  }
  bench.top.final();
  return faults != 0;
}
