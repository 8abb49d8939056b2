// The check of the memory plan of a model.
#pragma once

#include "model.h"

namespace ceras {

// Return null, or the reason why a run of checked layers would read overwritten bytes.
const char* replay(const Model& model);

}  // namespace ceras
