// Simulate the circuit: read the bytes of the input port from a file, and write the bytes of the
// output ports to another file, port by port, with random stalls of all ports. Print for each frame
// the cycle in which its last word leaves. OUTPUT_PORTS has PORT(name) for each output port.
//
//   simulate IN OUT FRAMES SEED STALL RESET BEATS_IN BEATS_OUT... [PACKET...]
//
// STALL is the percentage of cycles in which a port waits. If RESET is not 0, there is a reset after
// this number of cycles, and all frames are sent again. BEATS are per frame, BEATS_OUT of each output
// port. PACKET is the number of beats of an input packet instead of BEATS_IN, for each frame.
// Exit status 3: there was no transfer for 4 million cycles. 4: a packet was not a frame; the output
// is written.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "Vpipeline.h"
#include "verilated.h"

namespace {

constexpr std::uint64_t kPatience = 4000000;

struct Random {
  std::uint64_t state;
  // xorshift64*
  unsigned below(unsigned limit) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return static_cast<unsigned>((state * 2685821657736338717ULL) >> 33) % limit;
  }
};

std::vector<std::uint8_t> read_file(const char* path) {
  std::vector<std::uint8_t> bytes;
  std::FILE* file = std::fopen(path, "rb");
  if (file == nullptr) {
    std::perror(path);
    std::exit(1);
  }
  std::uint8_t chunk[65536];
  for (std::size_t n; (n = std::fread(chunk, 1, sizeof chunk, file)) > 0;)
    bytes.insert(bytes.end(), chunk, chunk + n);
  std::fclose(file);
  return bytes;
}

struct Output {
  const CData* valid;
  CData* ready;
  const void* data;
  const CData* last;
  std::uint64_t beats = 0;  // per frame
  std::uint64_t received = 0;
  std::vector<std::uint8_t> bytes{};
};

}  // namespace

int main(int argc, char** argv) {
  VerilatedContext context;
  const auto top = std::make_unique<Vpipeline>(&context);
#define PORT(name) \
  Output{&top->name##_tvalid, &top->name##_tready, &top->name##_tdata, &top->name##_tlast},
  std::vector<Output> outputs{OUTPUT_PORTS};
  const std::size_t first_packet = 8 + outputs.size();
  if (static_cast<std::size_t>(argc) < first_packet) {
    std::fprintf(stderr,
                 "simulate IN OUT FRAMES SEED STALL RESET BEATS_IN BEATS_OUT... [PACKET...]\n");
    return 2;
  }
  const auto input = read_file(argv[1]);
  const std::uint64_t frames = std::strtoull(argv[3], nullptr, 10);
  Random random{std::strtoull(argv[4], nullptr, 10) * 2 + 0x9e3779b97f4a7c15ULL};
  const unsigned stall = static_cast<unsigned>(std::strtoul(argv[5], nullptr, 10));
  const std::uint64_t reset = std::strtoull(argv[6], nullptr, 10);
  const std::uint64_t beats_in = std::strtoull(argv[7], nullptr, 10);
  std::uint64_t all_out = 0;
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].beats = std::strtoull(argv[8 + i], nullptr, 10);
    outputs[i].bytes.reserve(outputs[i].beats * frames * PORT_BYTES);
    all_out += outputs[i].beats * frames;
  }
  // The number of beats up to the end of each packet.
  std::vector<std::uint64_t> ends_in;
  for (std::uint64_t i = 0; i < frames; ++i)
    ends_in.push_back((i > 0 ? ends_in[i - 1] : 0) +
                      (first_packet + i < static_cast<std::uint64_t>(argc)
                           ? std::strtoull(argv[first_packet + i], nullptr, 10) : beats_in));

  const std::size_t width = sizeof top->s_axis_tdata < PORT_BYTES ? sizeof top->s_axis_tdata : PORT_BYTES;
  if (width != PORT_BYTES || input.size() < ends_in.back() * PORT_BYTES) {
    std::fprintf(stderr, "input of %zu bytes is too short\n", input.size());
    return 1;
  }
  top->clk = 0;
  top->rst = 1;
  top->s_axis_tvalid = 0;
  for (Output& output : outputs) *output.ready = 0;
  std::uint64_t cycle = 0, start = 4, packet = 0, sent = 0, received = 0, quiet = 0;
  std::vector<std::uint64_t> open(frames, outputs.size());  // the ports that still send a frame
  std::vector<std::uint64_t> ends;
  const std::uint64_t all_in = ends_in.back();
  bool offered = false;
  while (received < all_out) {
    if (reset != 0 && cycle == 4 + reset) {
      top->rst = 1;
      start = cycle + 4;
      packet = sent = received = 0;
      open.assign(frames, outputs.size());
      ends.clear();
      offered = false;
      for (Output& output : outputs) {
        output.received = 0;
        output.bytes.clear();
      }
    }
    if (cycle == start) top->rst = 0;
    const bool running = cycle >= start;
    // An offer remains until it is accepted.
    if (!offered) offered = running && sent < all_in && random.below(100) >= stall;
    top->s_axis_tvalid = offered;
    if (sent < all_in) std::memcpy(&top->s_axis_tdata, &input[sent * PORT_BYTES], PORT_BYTES);
    top->s_axis_tlast = packet < frames && sent + 1 == ends_in[packet];
    // A frame that consists of padding needs no input, so a port could send more frames.
    for (Output& output : outputs)
      *output.ready =
          running && random.below(100) >= stall && output.received < output.beats * frames;
    top->eval();
    const bool in = running && offered && top->s_axis_tready;
    bool out = false;
    for (Output& output : outputs) {
      if (!running || !*output.valid || !*output.ready) continue;
      out = true;
      const auto* data = reinterpret_cast<const std::uint8_t*>(output.data);
      output.bytes.insert(output.bytes.end(), data, data + PORT_BYTES);
      ++received;
      const bool is_end = ++output.received % output.beats == 0;
      if (is_end != static_cast<bool>(*output.last)) {
        std::fprintf(stderr, "tlast is wrong at beat %llu\n",
                     static_cast<unsigned long long>(output.received));
        return 1;
      }
      const std::uint64_t frame = output.received / output.beats - 1;
      if (is_end && --open[frame] == 0) ends.push_back(cycle - start);
    }
    if (in) {
      if (++sent == ends_in[packet]) ++packet;
      offered = false;
    }
    quiet = in || out ? 0 : quiet + 1;
    if (quiet > kPatience) {
      std::fprintf(stderr, "stuck: %llu of %llu beats in, %llu of %llu out\n",
                   static_cast<unsigned long long>(sent), static_cast<unsigned long long>(all_in),
                   static_cast<unsigned long long>(received),
                   static_cast<unsigned long long>(all_out));
      return 3;
    }
    top->clk = 1;
    top->eval();
    top->clk = 0;
    top->eval();
    ++cycle;
  }
  for (const std::uint64_t end : ends) std::printf("%llu\n", static_cast<unsigned long long>(end));
  std::FILE* file = std::fopen(argv[2], "wb");
  for (const Output& output : outputs) {
    if (file == nullptr ||
        std::fwrite(output.bytes.data(), 1, output.bytes.size(), file) != output.bytes.size()) {
      std::perror(argv[2]);
      return 1;
    }
  }
  std::fclose(file);
  if (top->input_errors == 0) return 0;
  std::fprintf(stderr, "input packets are %s\n",
               top->input_errors == 3 ? "too short and too long"
               : top->input_errors == 1 ? "too short" : "too long");
  return 4;
}
