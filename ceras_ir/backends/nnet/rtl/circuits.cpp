// A launch: what the circuit may see of memory, then its registers.
#include "circuits.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "plan.h"

namespace ceras {
namespace {

struct Free {
  void operator()(void* memory) const { std::free(memory); }
};

uint32_t launch(RtlCore& core, RtlPlan& plan, const int8_t* input, const int8_t* residual,
                int8_t* result) {
  const size_t bytes = (plan.stream.size() + 63) / 64 * 64;
  const std::unique_ptr<void, Free> stream(std::aligned_alloc(64, bytes));
  std::memcpy(stream.get(), plan.stream.data(), plan.stream.size());
  core.forget();
  const uint64_t constants = core.show(stream.get(), static_cast<int64_t>(bytes), false);
  const uint64_t from = core.show(input, plan.input_bytes, false);
  const uint64_t other = residual != nullptr ? core.show(residual, plan.residual_bytes, false) : 0;
  const uint64_t to = core.show(result, plan.result_bytes, true);
  rtl_set_addresses(plan, from, constants, other, to);
  return core.launch(plan.words);
}

// The core of this process, and where its cycles go.
struct Machine {
  RtlCore core;
  std::FILE* log;

  ~Machine() { std::fclose(log); }
  bool ran(uint32_t cycles) {
    ++core.memory.seed;
    std::fprintf(log, "%u\n", cycles);
    return cycles != 0;
  }
};
std::unique_ptr<Machine> machine;

void run_linear(const FpgaLinear& layer, const int8_t* input, const int8_t* weights,
                const int32_t* constants, const int8_t* shifts, const FpgaTables& tables,
                const int8_t* residual, int8_t* result, FpgaBuffers& buffers) {
  if (!machine->ran(rtl_linear(machine->core, layer, input, weights, constants, shifts, tables,
                               residual, result)))
    fpga_linear_circuit(layer, input, weights, constants, shifts, tables, residual, result,
                        buffers);
}

void run_pool(const FpgaPool& layer, const int8_t* input, int8_t* result) {
  if (!machine->ran(rtl_pool(machine->core, layer, input, result)))
    fpga_pool_circuit(layer, input, result);
}

void run_add(const FpgaAdd& layer, const int8_t* lhs, const int8_t* rhs, int8_t* result) {
  if (!machine->ran(rtl_add(machine->core, layer, lhs, rhs, result)))
    fpga_add_circuit(layer, lhs, rhs, result);
}

}  // namespace

bool rtl_take_over(const char* path, int stall, int latency) {
  std::FILE* log = std::fopen(path, "w");
  if (log == nullptr) return false;
  machine.reset(new Machine{{}, log});
  machine->core.memory = {latency, stall, 1};
  fpga_circuits = {run_linear, run_pool, run_add};
  return true;
}

uint32_t rtl_linear(RtlCore& core, const FpgaLinear& layer, const int8_t* input,
                    const int8_t* weights, const int32_t* constants, const int8_t* shifts,
                    const FpgaTables& tables, const int8_t* residual, int8_t* result) {
  RtlPlan plan;
  if (!rtl_plan_linear(layer, weights, constants, shifts, tables, residual != nullptr, plan))
    return 0;
  return launch(core, plan, input, residual, result);
}

uint32_t rtl_pool(RtlCore& core, const FpgaPool& layer, const int8_t* input, int8_t* result) {
  RtlPlan plan;
  return rtl_plan_pool(layer, plan) ? launch(core, plan, input, nullptr, result) : 0;
}

uint32_t rtl_add(RtlCore& core, const FpgaAdd& layer, const int8_t* lhs, const int8_t* rhs,
                 int8_t* result) {
  RtlPlan plan;
  return rtl_plan_add(layer, plan) ? launch(core, plan, lhs, rhs, result) : 0;
}

}  // namespace ceras
