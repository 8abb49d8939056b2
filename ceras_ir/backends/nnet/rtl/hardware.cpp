#include "hardware.h"

#include <cstdlib>
#include <cstring>

#include "circuits.h"
#include "simulation.h"

namespace ceras {
namespace {

class SimulatedCircuits : public CoreCircuits {
 public:
  SimulatedCircuits(std::unique_ptr<Simulation> core, const char* log)
      : CoreCircuits(*core, log), owned_(std::move(core)) {}

 private:
  std::unique_ptr<Simulation> owned_;
};

}  // namespace

bool HardwareOptions::take(const char* option, const char* value) {
  char* end = nullptr;
  const long number = std::strtol(value, &end, 10);
  const bool is_number = *value != 0 && *end == 0 && number >= 0 && number <= 100000;
  if (std::strcmp(option, "--rtl") == 0) {
    log = value;
  } else if (std::strcmp(option, "--stall") == 0 && is_number && number <= 95) {
    stall = static_cast<int>(number);
  } else if (std::strcmp(option, "--latency") == 0 && is_number) {
    latency = static_cast<int>(number);
  } else {
    return false;
  }
  return true;
}

std::unique_ptr<FpgaCircuits> open_hardware(const HardwareOptions& options) {
  if (options.log == nullptr) return nullptr;
  auto core = std::make_unique<Simulation>();
  core->memory = {options.latency, options.stall, 1};
  return std::make_unique<SimulatedCircuits>(std::move(core), options.log);
}

}  // namespace ceras
