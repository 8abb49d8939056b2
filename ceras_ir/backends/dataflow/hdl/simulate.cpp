// Simulate the circuit: read the bytes of the input port from a file, and write the bytes of the
// output port to another file, with random stalls of both ports. Print the last cycle of each
// frame.
//
//   simulate IN OUT BEATS_IN BEATS_OUT FRAMES SEED STALL [PACKET...]
//
// BEATS are per frame. STALL is the percentage of cycles in which the ports wait. PACKET is the
// number of beats of an input packet instead of BEATS_IN, for each frame. Exit status 3: there was no
// transfer for 4 million cycles. 4: a packet was not a frame; the output is written.
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

}  // namespace

int main(int argc, char** argv) {
  if (argc < 8) {
    std::fprintf(stderr, "simulate IN OUT BEATS_IN BEATS_OUT FRAMES SEED STALL [PACKET...]\n");
    return 2;
  }
  const auto input = read_file(argv[1]);
  const std::uint64_t beats_in = std::strtoull(argv[3], nullptr, 10);
  const std::uint64_t beats_out = std::strtoull(argv[4], nullptr, 10);
  const std::uint64_t frames = std::strtoull(argv[5], nullptr, 10);
  // The number of beats up to the end of each packet.
  std::vector<std::uint64_t> ends_in;
  for (std::uint64_t i = 0; i < frames; ++i)
    ends_in.push_back((i > 0 ? ends_in[i - 1] : 0) +
                      (8 + i < static_cast<std::uint64_t>(argc)
                           ? std::strtoull(argv[8 + i], nullptr, 10) : beats_in));
  Random random{std::strtoull(argv[6], nullptr, 10) * 2 + 0x9e3779b97f4a7c15ULL};
  const unsigned stall = static_cast<unsigned>(std::strtoul(argv[7], nullptr, 10));

  VerilatedContext context;
  const auto top = std::make_unique<Vpipeline>(&context);
  const std::size_t width = sizeof top->s_axis_tdata < PORT_BYTES ? sizeof top->s_axis_tdata : PORT_BYTES;
  if (width != PORT_BYTES || input.size() < ends_in.back() * PORT_BYTES) {
    std::fprintf(stderr, "input of %zu bytes is too short\n", input.size());
    return 1;
  }
  std::vector<std::uint8_t> output;
  output.reserve(beats_out * frames * PORT_BYTES);

  top->clk = 0;
  top->rst = 1;
  top->s_axis_tvalid = 0;
  top->m_axis_tready = 0;
  std::uint64_t cycle = 0, packet = 0, sent = 0, received = 0, quiet = 0;
  const std::uint64_t all_in = ends_in.back(), all_out = beats_out * frames;
  bool offered = false;
  while (received < all_out) {
    if (cycle == 4) top->rst = 0;
    const bool running = cycle >= 4;
    // An offer remains until it is accepted.
    if (!offered) offered = running && sent < all_in && random.below(100) >= stall;
    top->s_axis_tvalid = offered;
    if (sent < all_in) std::memcpy(&top->s_axis_tdata, &input[sent * PORT_BYTES], PORT_BYTES);
    top->s_axis_tlast = packet < frames && sent + 1 == ends_in[packet];
    top->m_axis_tready = running && random.below(100) >= stall;
    top->eval();
    const bool in = running && offered && top->s_axis_tready;
    const bool out = running && top->m_axis_tvalid && top->m_axis_tready;
    if (out) {
      const auto* data = reinterpret_cast<const std::uint8_t*>(&top->m_axis_tdata);
      output.insert(output.end(), data, data + PORT_BYTES);
      ++received;
      const bool ends = received % beats_out == 0;
      if (ends != static_cast<bool>(top->m_axis_tlast)) {
        std::fprintf(stderr, "tlast is wrong at beat %llu\n",
                     static_cast<unsigned long long>(received));
        return 1;
      }
      if (ends) std::printf("%llu\n", static_cast<unsigned long long>(cycle - 4));
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
  std::FILE* file = std::fopen(argv[2], "wb");
  if (file == nullptr || std::fwrite(output.data(), 1, output.size(), file) != output.size()) {
    std::perror(argv[2]);
    return 1;
  }
  std::fclose(file);
  if (top->input_errors == 0) return 0;
  std::fprintf(stderr, "input packets are %s\n",
               top->input_errors == 3 ? "too short and too long"
               : top->input_errors == 1 ? "too short" : "too long");
  return 4;
}
