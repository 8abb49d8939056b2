// A launch: what the core may see of memory, then its registers.
#include "circuits.h"

namespace ceras {

uint32_t run_plan(Core& core, CorePlan& plan, uint64_t stream, const int8_t* input,
                  const int8_t* residual, int8_t* result) {
  core.begin();
  const uint64_t from = core.show(input, plan.input_bytes, false);
  const uint64_t other = residual != nullptr ? core.show(residual, plan.residual_bytes, false) : 0;
  const uint64_t to = core.show(result, plan.result_bytes, true);
  set_addresses(plan, from, stream, other, to);
  return core.launch(plan.words);
}

CoreCircuits::CoreCircuits(Core& core, const char* log)
    : core_(core), log_(log != nullptr ? std::fopen(log, "w") : nullptr) {
  if (log != nullptr && log_ == nullptr) throw FpgaError(std::string(log) + " cannot be written");
}

CoreCircuits::~CoreCircuits() {
  if (log_ != nullptr) std::fclose(log_);
}

template <class Plan>
CoreCircuits::Kept& CoreCircuits::planned(const void* layer, Plan plan) {
  const auto found = plans_.find(layer);
  if (found != plans_.end()) return found->second;
  Kept& kept = plans_.emplace(layer, Kept{plan(), 0}).first->second;
  if (kept.plan.taken()) kept.stream = core_.keep(kept.plan.stream.data(), kept.plan.stream.size());
  kept.plan.stream = {};
  return kept;
}

bool CoreCircuits::run(Kept& kept, const int8_t* input, const int8_t* residual, int8_t* result) {
  if (planning_) return true;
  if (!kept.plan.taken()) {
    if (log_ != nullptr) std::fprintf(log_, "0 %s\n", kept.plan.refused.c_str());
    return false;
  }
  const uint32_t cycles = run_plan(core_, kept.plan, kept.stream, input, residual, result);
  if (log_ != nullptr) std::fprintf(log_, "%u\n", cycles);
  return true;
}

bool CoreCircuits::linear(const void* layer, const FpgaLinear& registers, const int8_t* input,
                          const int8_t* weights, const int32_t* constants, const int8_t* shifts,
                          const FpgaTables& tables, const int8_t* residual, int8_t* result) {
  Kept& kept = planned(layer, [&] {
    return plan_linear(core_.size(), registers, weights, constants, shifts, tables,
                       residual != nullptr);
  });
  return run(kept, input, residual, result);
}

bool CoreCircuits::pool(const void* layer, const FpgaPool& registers, const int8_t* input,
                        int8_t* result) {
  Kept& kept = planned(layer, [&] { return plan_pool(core_.size(), registers); });
  return run(kept, input, nullptr, result);
}

bool CoreCircuits::add(const void* layer, const FpgaAdd& registers, const int8_t* lhs,
                       const int8_t* rhs, int8_t* result) {
  Kept& kept = planned(layer, [&] { return plan_add(core_.size(), registers); });
  return run(kept, lhs, rhs, result);
}

bool CoreCircuits::other(const void*, const char* what) {
  if (log_ != nullptr && !planning_) std::fprintf(log_, "0 the core has no circuit for %s\n", what);
  return planning_;
}

}  // namespace ceras
