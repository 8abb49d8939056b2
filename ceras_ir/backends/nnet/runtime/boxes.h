// The boxes that data movement operators copy.
//
// `copy(in, start, from, out, start, to, dims, rank)` copies a box of `dims` elements.
// `from` and `to` are strides in elements.
#pragma once

#include "fpga_host.h"

namespace ceras {

template <class Copy>
void transpose_boxes(const Layer& layer, Copy copy) {
  const Tensor& out = layer.output();
  int64_t own[MAX_RANK] = {}, from[MAX_RANK] = {}, to[MAX_RANK] = {};
  strides_of(layer.input(), own);
  strides_of(out, to);
  for (uint32_t d = 0; d < out.rank; ++d) from[d] = own[layer.attributes[d]];
  copy(layer.input(), 0, from, out, 0, to, out.dims, out.rank);
}

template <class Copy>
void slice_boxes(const Layer& layer, Copy copy) {
  const Tensor& out = layer.output();
  int64_t from[MAX_RANK] = {}, to[MAX_RANK] = {}, start = 0;
  strides_of(layer.input(), from);
  strides_of(out, to);
  for (uint32_t d = 0; d < out.rank; ++d) {
    start += from[d] * layer.attributes[d];
    from[d] *= static_cast<int32_t>(layer.attributes[out.rank + d]);
  }
  copy(layer.input(), start, from, out, 0, to, out.dims, out.rank);
}

template <class Copy>
void concat_boxes(const Layer& layer, Copy copy) {
  const Tensor& out = layer.output();
  const uint32_t axis = layer.attributes[0];
  int64_t to[MAX_RANK] = {}, start = 0;
  strides_of(out, to);
  for (size_t i = 0; i < layer.operands.size(); ++i) {
    const Tensor& operand = *layer.operands[i];
    int64_t from[MAX_RANK] = {};
    strides_of(operand, from);
    // An operand that is in place is not copied.
    if (!is_in_its_slice(layer, i)) copy(operand, 0, from, out, start, to, operand.dims, out.rank);
    start += operand.dims[axis] * to[axis];
  }
}

}  // namespace ceras
