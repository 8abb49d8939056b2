// Load a model from the bytes of a file, or return the reason of the refusal.
#pragma once

#include <cstddef>
#include <cstdint>

#include "model.h"

namespace ceras {

// May throw std::bad_alloc. `message` is written if the result is false.
bool load(const uint8_t* data, uint64_t size, Model& model, char* message, size_t message_size);

// Set all states to the initial value zero.
void reset(Model& model);

}  // namespace ceras
