#include "hardware.h"

#include <cstdlib>
#include <cstring>

namespace ceras {
namespace {

class OwnedBoard : public BoardCircuits {
 public:
  OwnedBoard(std::unique_ptr<BoardCore> core, const char* log)
      : BoardCircuits(*core, log), owned_(std::move(core)) {}

 private:
  std::unique_ptr<BoardCore> owned_;
};

}  // namespace

bool HardwareOptions::take(const char* option, const char* value) {
  const struct {
    const char* name;
    std::string* text;
  } texts[] = {{"--registers", &board.registers},       {"--register-file", &board.register_file},
               {"--interrupt", &board.interrupt},       {"--devices", &board.devices},
               {"--classes", &board.classes}};
  for (const auto& known : texts)
    if (std::strcmp(option, known.name) == 0) {
      *known.text = value;
      return true;
    }
  if (std::strcmp(option, "--memory") == 0) {
    board.memory = value;
    wanted = true;
  } else if (std::strcmp(option, "--cycles") == 0) {
    log = value;
  } else if (std::strcmp(option, "--timeout") == 0) {
    char* end = nullptr;
    const unsigned long number = std::strtoul(value, &end, 10);
    if (*value < '0' || *value > '9' || *end != 0 || number == 0 || number > 86400000) return false;
    board.timeout_ms = static_cast<uint32_t>(number);
  } else {
    return false;
  }
  return true;
}

std::unique_ptr<FpgaCircuits> open_hardware(const HardwareOptions& options) {
  if (!options.wanted) return nullptr;
  return std::make_unique<OwnedBoard>(std::make_unique<BoardCore>(options.board), options.log);
}

}  // namespace ceras
