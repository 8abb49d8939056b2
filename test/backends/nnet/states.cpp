// Run a model on the same samples twice, with `ceras_reset` in between: states MODEL IN OUT N
//
// IN holds N samples of the inputs that callers see, OUT gets the outputs of 2 N runs.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "ceras.h"

int main(int, char** argv) {
  void* data = nullptr;
  if (posix_memalign(&data, 64, 1 << 20) != 0) return 2;
  std::FILE* file = std::fopen(argv[1], "rb");
  const size_t size = std::fread(data, 1, 1 << 20, file);
  std::fclose(file);
  ceras_model* model = nullptr;
  if (ceras_load(data, size, &model, nullptr, 0) != CERAS_OK) return 1;
  std::FILE* out = std::fopen(argv[3], "wb");
  for (int round = 0; round < 2; ++round) {
    std::FILE* in = std::fopen(argv[2], "rb");
    for (int sample = 0; sample < std::atoi(argv[4]); ++sample) {
      for (size_t i = 0; i < ceras_input_count(model); ++i) {
        const size_t bytes = ceras_input_info(model, i).bytes;
        if (std::fread(ceras_input(model, i), 1, bytes, in) != bytes) return 3;
      }
      if (ceras_run(model) != CERAS_OK) return 4;
      for (size_t i = 0; i < ceras_output_count(model); ++i)
        std::fwrite(ceras_output(model, i), 1, ceras_output_info(model, i).bytes, out);
    }
    std::fclose(in);
    ceras_reset(model);
  }
  std::fclose(out);
  ceras_unload(model);
  std::free(data);
}
