// Launch layers: grant the core access to memory, then start the core.
#include "circuits.h"

#include <algorithm>

namespace ceras {

void show_plan(Core& core, CorePlan& plan, uint64_t stream, const int8_t* input,
               const int8_t* residual, int8_t* result) {
  const uint64_t from = core.show(input, plan.input_bytes, false);
  const uint64_t other = residual != nullptr ? core.show(residual, plan.residual_bytes, false) : 0;
  const uint64_t to = core.show(result, plan.result_bytes, true);
  set_addresses(plan, from, stream, other, to);
}

CoreCircuits::CoreCircuits(Core& core, const char* log)
    : core_(core), log_(log != nullptr ? std::fopen(log, "w") : nullptr) {
  if (log != nullptr && log_ == nullptr) throw FpgaError(std::string(log) + " cannot be written");
}

CoreCircuits::~CoreCircuits() {
  if (log_ != nullptr) std::fclose(log_);
}

void CoreCircuits::end_planning() {
  planning_ = false;
  if (longest_ > shared_bytes_) changed(std::vector<uint8_t>(longest_));
}

void CoreCircuits::cpu_uses(const void*, int64_t, CpuUse) { flush(); }

void CoreCircuits::flush() {
  if (queue_.empty()) return;
  const std::vector<LayerWords> queue = std::move(queue_);
  const std::vector<const void*> queued = std::move(queued_);
  queue_.clear();
  queued_.clear();
  try {
    core_.launch_queue(queue);
  } catch (FpgaError& error) {
    error.layer = queued[std::min(error.launch, queued.size() - 1)];
    throw;
  }
}

uint64_t CoreCircuits::changed(const std::vector<uint8_t>& stream) {
  flush();
  if (stream.size() <= shared_bytes_) {
    core_.replace(shared_, stream.data(), stream.size());
  } else {
    shared_ = core_.keep(stream.data(), stream.size());
    shared_bytes_ = stream.size();
  }
  return shared_;
}

template <class Plan>
CoreCircuits::Kept& CoreCircuits::planned(const void* layer, Plan plan) {
  const auto found = layers_.find(layer);
  if (found != layers_.end()) return found->second;
  Kept& kept = layers_.emplace(layer, plan()).first->second;
  for (Part& part : kept) {
    CorePlan& own = part.plan.plan;
    if (own.taken()) part.stream = core_.keep(own.stream.data(), own.stream.size());
    own.stream = {};
  }
  return kept;
}

template <class Plan>
bool CoreCircuits::run_one(const void* layer, Plan plan, const int8_t* input,
                           const int8_t* residual, int8_t* result) {
  Kept& kept = planned(layer, [&] { return Kept{{{plan(), {{0, 0}}}, 0}}; });
  const Ends ends{input, residual, result};
  return run(layer, kept, &ends);
}

bool CoreCircuits::run(const void* layer, Kept& kept, const Ends* ends) {
  if (planning_) return true;
  for (const Part& part : kept) {
    if (part.plan.plan.taken()) continue;
    if (log_ != nullptr) std::fprintf(log_, "0 %s\n", part.plan.plan.refused.c_str());
    return false;
  }
  uint64_t cycles = 0;
  for (Part& part : kept) {
    for (const Place& place : part.plan.places) {
      if (queue_.empty()) core_.begin();
      CorePlan& plan = part.plan.plan;
      show_plan(core_, plan, part.stream, ends->input + place.input, ends->residual,
                ends->result + place.result);
      if (log_ != nullptr) {
        cycles += core_.launch(plan.words);
        continue;
      }
      queue_.push_back(plan.words);
      queued_.push_back(layer);
      if (queue_.size() == MAX_QUEUED_LAYERS) flush();
    }
    ++ends;
  }
  if (log_ != nullptr) std::fprintf(log_, "%llu\n", static_cast<unsigned long long>(cycles));
  return true;
}

bool CoreCircuits::linear(const void* layer, const FpgaLinear& registers, const int8_t* input,
                          const int8_t* weights, const int32_t* constants, const int8_t* shifts,
                          const FpgaTables& tables, const int8_t* residual, int8_t* result) {
  const auto plan = [&] {
    return plan_linear(core_.size(), registers, weights, constants, shifts, tables,
                       residual != nullptr);
  };
  if (!registers.computed) return run_one(layer, plan, input, residual, result);
  // The registers and the length of the stream do not change between runs.
  const auto found = layers_.find(layer);
  Part& part = found != layers_.end()
                   ? found->second.front()
                   : layers_.emplace(layer, Kept{{{plan(), {{0, 0}}}, 0}}).first->second.front();
  CorePlan& own = part.plan.plan;
  longest_ = std::max(longest_, own.stream.size());
  if (!planning_ && own.taken()) {
    refill_linear(core_.size(), registers, weights, constants, shifts, tables, residual != nullptr,
                  own);
    part.stream = changed(own.stream);
  }
  const Ends ends{input, residual, result};
  return run(layer, layers_.at(layer), &ends);
}

bool CoreCircuits::pool(const void* layer, const FpgaPool& registers, const int8_t* input,
                        int8_t* result) {
  const auto plan = [&] { return plan_pool(core_.size(), registers); };
  return run_one(layer, plan, input, nullptr, result);
}

bool CoreCircuits::add(const void* layer, const FpgaAdd& registers, const int8_t* lhs,
                       const int8_t* rhs, int8_t* result) {
  const auto plan = [&] { return plan_add(core_.size(), registers); };
  return run_one(layer, plan, lhs, rhs, result);
}

bool CoreCircuits::lookup(const void* layer, const FpgaLookup& registers, const FpgaTables& tables,
                          const int8_t* input, int8_t* result) {
  const auto plan = [&] { return plan_lookup(core_.size(), registers, tables); };
  return run_one(layer, plan, input, nullptr, result);
}

bool CoreCircuits::move(const void* layer, const std::vector<FpgaBox>& boxes) {
  Kept& kept = planned(layer, [&] {
    Kept parts;
    for (const FpgaBox& box : boxes) parts.push_back({plan_move(core_.size(), box.move), 0});
    return parts;
  });
  std::vector<Ends> ends;
  for (const FpgaBox& box : boxes) ends.push_back({box.input, nullptr, box.result});
  return run(layer, kept, ends.data());
}

}  // namespace ceras
