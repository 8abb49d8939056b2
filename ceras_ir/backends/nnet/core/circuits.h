// Execute layers on a core instead of the circuits in C++.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "plan.h"

namespace ceras {

// Grant the core access to the operands of a planned layer, and set the addresses.
void show_plan(Core& core, CorePlan& plan, uint64_t stream, const int8_t* input,
               const int8_t* residual, int8_t* result);

// A layer is planned a single time. Without a log, successive launches form a queue, which the core
// executes with a single start before the CPU uses a value.
class CoreCircuits : public FpgaCircuits {
 public:
  // `log`, if not null, gets a line per layer: the cycles, or 0 and the reason of the refusal.
  CoreCircuits(Core& core, const char* log);
  ~CoreCircuits() override;

  bool linear(const void* layer, const FpgaLinear& registers, const int8_t* input,
              const int8_t* weights, const int32_t* constants, const int8_t* shifts,
              const FpgaTables& tables, const int8_t* residual, int8_t* result) override;
  bool pool(const void* layer, const FpgaPool& registers, const int8_t* input,
            int8_t* result) override;
  bool add(const void* layer, const FpgaAdd& registers, const int8_t* lhs, const int8_t* rhs,
           int8_t* result) override;
  bool lookup(const void* layer, const FpgaLookup& registers, const FpgaTables& tables,
              const int8_t* input, int8_t* result) override;
  bool move(const void* layer, const std::vector<FpgaBox>& boxes) override;
  void cpu_uses(const void* data, int64_t bytes, CpuUse use) override;
  void begin_planning() override { planning_ = true; }
  void end_planning() override;

 private:
  // The launches of a plan, and the address of the stream.
  struct Part {
    MovePlan plan;
    uint64_t stream;
  };
  using Kept = std::vector<Part>;  // of a layer; all launches run in Verilog, or no launch
  struct Ends {
    const int8_t *input, *residual;
    int8_t* result;
  };
  // The address of a stream that changes in each run. All such layers share the address.
  uint64_t changed(const std::vector<uint8_t>& stream);
  // `ends` has an entry for each part.
  bool run(const void* layer, Kept& kept, const Ends* ends);
  // Execute the queue.
  void flush();
  template <class Plan>
  Kept& planned(const void* layer, Plan plan);
  template <class Plan>
  bool run_one(const void* layer, Plan plan, const int8_t* input, const int8_t* residual,
               int8_t* result);

  Core& core_;
  std::FILE* log_;
  std::map<const void*, Kept> layers_;
  bool planning_ = false;
  std::vector<LayerWords> queue_;
  std::vector<const void*> queued_;  // the layers of the queue
  uint64_t shared_ = 0;  // the address of streams that change
  size_t shared_bytes_ = 0, longest_ = 0;  // the size there, and the size of the longest stream
};

}  // namespace ceras
