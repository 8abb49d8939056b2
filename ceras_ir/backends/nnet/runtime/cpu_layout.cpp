// Operators of the CPU that move elements, linear resizing included.
#include <algorithm>
#include <cstring>

#include "operators.h"

namespace ceras {
namespace {

// Copy a box of `dims` elements from and to wherever the strides lead.
template <class Word>
void copy_words(const Word* in, const int64_t* from, Word* out, const int64_t* to,
                const int64_t* dims, uint32_t rank) {
  if (rank == 0) {
    *out = *in;
    return;
  }
  const uint32_t last = rank - 1;
  int64_t index[MAX_RANK] = {};
  for (;;) {
    if (from[last] == 1 && to[last] == 1)
      std::memcpy(out, in, static_cast<size_t>(dims[last]) * sizeof(Word));
    else
      for (int64_t i = 0; i < dims[last]; ++i) out[i * to[last]] = in[i * from[last]];
    uint32_t d = last;
    for (;;) {
      if (d-- == 0) return;
      if (++index[d] < dims[d]) break;
      in -= (dims[d] - 1) * from[d];
      out -= (dims[d] - 1) * to[d];
      index[d] = 0;
    }
    in += from[d];
    out += to[d];
  }
}

void copy_box(const Tensor& in, int64_t in_start, const int64_t* from, const Tensor& out,
              int64_t out_start, const int64_t* to, const int64_t* dims) {
  const auto copy = [&](auto word) {
    using Word = decltype(word);
    copy_words(reinterpret_cast<const Word*>(in.data) + in_start, from,
               reinterpret_cast<Word*>(out.target) + out_start, to, dims, out.rank);
  };
  switch (bytes_of(out.storage)) {
    case 1:
      return copy(uint8_t{});
    case 2:
      return copy(uint16_t{});
    default:
      return copy(uint32_t{});
  }
}

// `count` elements from `start`, all of the same bits.
void fill(const Tensor& out, int64_t start, int64_t count, uint32_t value) {
  const auto elements = static_cast<size_t>(count);
  switch (bytes_of(out.storage)) {
    case 1:
      std::memset(out.target + start, static_cast<uint8_t>(value), elements);
      break;
    case 2:
      std::fill_n(reinterpret_cast<uint16_t*>(out.target) + start, elements,
                  static_cast<uint16_t>(value));
      break;
    default:
      std::fill_n(reinterpret_cast<uint32_t*>(out.target) + start, elements, value);
  }
}

float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

void reshape(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.data == out.data) return;
  const bool gaps = in.has_gaps() || out.has_gaps();
  const int64_t unit = bytes_of(out.storage), width = gaps ? out.row : out.elements;
  for (int64_t row = 0; row < out.elements / width; ++row)
    std::memmove(out.target + row * out.pitch * unit, in.data + row * in.pitch * unit,
                 static_cast<size_t>(width * unit));
}

void transpose(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  int64_t own[MAX_RANK] = {}, from[MAX_RANK] = {}, to[MAX_RANK] = {};
  strides_of(layer.input(), own);
  strides_of(out, to);
  for (uint32_t d = 0; d < out.rank; ++d) from[d] = own[layer.attributes[d]];
  copy_box(layer.input(), 0, from, out, 0, to, out.dims);
}

void slice(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  int64_t from[MAX_RANK] = {}, to[MAX_RANK] = {}, start = 0;
  strides_of(layer.input(), from);
  strides_of(out, to);
  for (uint32_t d = 0; d < out.rank; ++d) {
    start += from[d] * layer.attributes[d];
    from[d] *= static_cast<int32_t>(layer.attributes[out.rank + d]);
  }
  copy_box(layer.input(), start, from, out, 0, to, out.dims);
}

void pad(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  int64_t from[MAX_RANK] = {}, to[MAX_RANK] = {}, start = 0;
  strides_of(in, from);
  strides_of(out, to);
  for (uint32_t d = 0; d < out.rank; ++d) {
    start += to[d] * layer.attributes[d];
    to[d] *= int64_t{layer.attributes[out.rank + d]} + 1;
  }
  const uint32_t value = layer.attributes[2 * out.rank];
  const int64_t width = out.has_gaps() ? out.row : out.elements;
  for (int64_t row = 0; row < out.elements / width; ++row) fill(out, row * out.pitch, width, value);
  copy_box(in, 0, from, out, start, to, in.dims);
}

void concat(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  const uint32_t axis = layer.attributes[0];
  int64_t to[MAX_RANK] = {}, start = 0;
  strides_of(out, to);
  for (size_t i = 0; i < layer.operands.size(); ++i) {
    const Tensor& operand = *layer.operands[i];
    int64_t from[MAX_RANK] = {};
    strides_of(operand, from);
    // An operand that was written to its place has nothing to move.
    if (!is_in_its_slice(layer, i)) copy_box(operand, 0, from, out, start, to, operand.dims);
    start += operand.dims[axis] * to[axis];
  }
}

void resize_nearest(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const uint32_t* rows = layer.attributes.data() + 1;
  const uint32_t* columns = rows + out.dims[1];
  const int64_t unit = bytes_of(out.storage), from = in.pitch * unit, to = out.pitch * unit;
  uint8_t* target = out.target;
  for (int64_t image = 0; image < out.dims[0]; ++image)
    for (int64_t y = 0; y < out.dims[1]; ++y) {
      const uint8_t* line = in.data + (image * in.dims[1] + rows[y]) * in.dims[2] * from;
      for (int64_t x = 0; x < out.dims[2]; ++x, target += to)
        std::memcpy(target, line + columns[x] * from, static_cast<size_t>(out.row * unit));
    }
}

void resize_linear(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const uint32_t* rows = layer.attributes.data() + 1;
  const uint32_t* columns = rows + 3 * out.dims[1];
  float* target = out.float_target();
  for (int64_t image = 0; image < out.dims[0]; ++image)
    for (int64_t y = 0; y < out.dims[1]; ++y) {
      const float ty = as_float(rows[3 * y + 2]), sy = 1.0f - ty;
      const int64_t line = in.dims[2] * in.pitch;
      const float* above = in.floats() + (image * in.dims[1] + rows[3 * y]) * line;
      const float* below = in.floats() + (image * in.dims[1] + rows[3 * y + 1]) * line;
      for (int64_t x = 0; x < out.dims[2]; ++x, target += out.pitch) {
        const float tx = as_float(columns[3 * x + 2]), sx = 1.0f - tx;
        const int64_t left = columns[3 * x] * in.pitch, right = columns[3 * x + 1] * in.pitch;
        for (int64_t c = 0; c < out.row; ++c) {
          // Along height first, as graph.resize says.
          const float first = above[left + c] * sy + below[left + c] * ty;
          const float second = above[right + c] * sy + below[right + c] * ty;
          target[c] = first * sx + second * tx;
        }
      }
    }
}

}  // namespace ceras
