// From the bytes of a file to a model that can run, or to the reason why not.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model.h"

namespace ceras {

// May throw std::bad_alloc. `message` is written when the result is false.
bool load(const uint8_t* data, uint64_t size, Model& model, char* message, size_t message_size);

// Give every state its first value: zero, as it is stored.
void reset(Model& model);

}  // namespace ceras
