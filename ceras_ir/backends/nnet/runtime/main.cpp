// ceras_engine MODEL.nnet IN.bin OUT.bin [--samples N] [--trace FILE] [--transfers]
// ceras_engine MODEL.nnet --check
//
// IN.bin has N samples (default: 1) with the raw inputs in table order. OUT.bin has the outputs in
// the same format. States continue from sample to sample. The trace has a record per layer and
// sample: u32 layer, u32 bytes, data.
// --check only loads the file. --transfers prints a line for each value that one side writes and the other reads.
// An engine with hardware has additional options: hardware.h.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "ceras.h"
#include "fpga.h"
#if defined(CERAS_HARDWARE)
#include "hardware.h"
#endif

namespace {

struct Closer {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Closer>;

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

struct Buffer {
  std::unique_ptr<uint8_t, Free> data;
  size_t size = 0;
};

int fail(const std::string& file, const std::string& reason) {
  std::fprintf(stderr, "%s: error: %s\n", file.c_str(), reason.c_str());
  return 1;
}

// Read a file to memory that is aligned to 64 bytes.
bool read_file(const char* path, Buffer& buffer) {
  const File file(std::fopen(path, "rb"));
  if (!file || std::fseek(file.get(), 0, SEEK_END) != 0) return false;
  const long size = std::ftell(file.get());
  if (size < 0 || std::fseek(file.get(), 0, SEEK_SET) != 0) return false;
  buffer.size = static_cast<size_t>(size);
  buffer.data.reset(
      static_cast<uint8_t*>(std::aligned_alloc(64, (buffer.size / 64 + 1) * 64)));
  return buffer.data && std::fread(buffer.data.get(), 1, buffer.size, file.get()) == buffer.size;
}

void write_record(void* context, size_t layer, const ceras_rows* result) {
  std::FILE* file = static_cast<std::FILE*>(context);
  const uint32_t head[2] = {static_cast<uint32_t>(layer),
                            static_cast<uint32_t>(result->rows * result->bytes)};
  std::fwrite(head, sizeof head, 1, file);
  for (size_t row = 0; row < result->rows; ++row)
    std::fwrite(static_cast<const uint8_t*>(result->data) + row * result->pitch, 1, result->bytes,
                file);
}

void print_transfer(void*, const ceras_crossing* crossing) {
  const ceras_rows& value = crossing->value;
  const size_t end = crossing->offset + (value.rows - 1) * value.pitch + value.bytes;
  std::printf("layer %zu on %s reads [%zu, %zu) from the other side", crossing->layer,
              crossing->to_fpga ? "fpga" : "cpu", crossing->offset, end);
  if (value.rows > 1) std::printf(", %zu of every %zu bytes", value.bytes, value.pitch);
  std::printf("\n");
}

// Create the hardware for an option and the value.
struct Hardware {
#if defined(CERAS_HARDWARE)
  ceras::HardwareOptions options;
  static constexpr const char* usage = ceras::HARDWARE_USAGE;
  bool take(const char* option, const char* value) { return options.take(option, value); }
  std::unique_ptr<ceras::FpgaCircuits> open() const { return ceras::open_hardware(options); }
#else
  static constexpr const char* usage = "";
  bool take(const char*, const char*) { return false; }
  std::unique_ptr<ceras::FpgaCircuits> open() const { return nullptr; }
#endif
};

struct Unload {
  void operator()(ceras_model* model) const { ceras_unload(model); }
};

int run(const std::vector<const char*>& paths, unsigned long samples, const char* trace_path,
        bool transfers) {
  Buffer file;
  if (!read_file(paths[0], file)) return fail(paths[0], "cannot be read");
  char message[256];
  ceras_model* loaded = nullptr;
  if (ceras_load(file.data.get(), file.size, &loaded, message, sizeof message) != CERAS_OK)
    return fail(paths[0], message);
  const std::unique_ptr<ceras_model, Unload> model(loaded);
  if (transfers) ceras_transfers(model.get(), print_transfer, nullptr);
  if (paths.size() == 1) return 0;

  const File in(std::fopen(paths[1], "rb"));
  if (!in) return fail(paths[1], "cannot be read");
  const File out(std::fopen(paths[2], "wb"));
  if (!out) return fail(paths[2], "cannot be written");
  const File trace(trace_path != nullptr ? std::fopen(trace_path, "wb") : nullptr);
  if (trace_path != nullptr && !trace) return fail(trace_path, "cannot be written");

  for (unsigned long sample = 0; sample < samples; ++sample) {
    for (size_t i = 0; i < ceras_input_count(model.get()); ++i) {
      const size_t bytes = ceras_input_info(model.get(), i).bytes;
      if (std::fread(ceras_input(model.get(), i), 1, bytes, in.get()) != bytes)
        return fail(paths[1], "is shorter than the samples");
    }
    if (ceras_run_traced(model.get(), trace ? write_record : nullptr, trace.get()) != CERAS_OK)
      return fail(paths[0], ceras_failure(model.get()));
    for (size_t i = 0; i < ceras_output_count(model.get()); ++i)
      std::fwrite(ceras_output(model.get(), i), 1, ceras_output_info(model.get(), i).bytes,
                  out.get());
  }
  if (std::fgetc(in.get()) != EOF) return fail(paths[1], "is longer than the samples");
  if (std::fflush(out.get()) != 0 || std::ferror(out.get()))
    return fail(paths[2], "cannot be written");
  if (trace && (std::fflush(trace.get()) != 0 || std::ferror(trace.get())))
    return fail(trace_path, "cannot be written");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<const char*> paths;
  unsigned long samples = 1;
  const char* trace = nullptr;
  Hardware hardware;
  bool usage = false, transfers = false, check = false;
  for (int i = 1; i < argc && !usage; ++i) {
    const bool value = i + 1 < argc;
    if (std::strcmp(argv[i], "--samples") == 0 && value) {
      char* end = nullptr;
      samples = std::strtoul(argv[++i], &end, 10);
      usage = *end != 0 || end == argv[i];
    } else if (std::strcmp(argv[i], "--trace") == 0 && value) {
      trace = argv[++i];
    } else if (std::strcmp(argv[i], "--transfers") == 0) {
      transfers = true;
    } else if (std::strcmp(argv[i], "--check") == 0) {
      check = true;
    } else if (argv[i][0] == '-' && value && hardware.take(argv[i], argv[i + 1])) {
      ++i;
    } else {
      usage = argv[i][0] == '-';
      paths.push_back(argv[i]);
    }
  }
  if (usage || paths.size() != (check ? 1 : 3)) {
    std::fprintf(stderr,
                 "usage: ceras_engine MODEL.nnet IN.bin OUT.bin [--samples N] [--trace FILE] "
                 "[--transfers]\n       ceras_engine MODEL.nnet --check\n%s",
                 Hardware::usage);
    return 2;
  }
  std::unique_ptr<ceras::FpgaCircuits> circuits;
  try {
    circuits = hardware.open();
  } catch (const ceras::FpgaError& error) {
    return fail("ceras_engine", error.what());
  }
  ceras::fpga_circuits = circuits.get();
  return run(paths, samples, trace, transfers);
}
