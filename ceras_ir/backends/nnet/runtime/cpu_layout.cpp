// Operators of the CPU that move elements, linear resizing included.
#include <algorithm>
#include <cstring>

#include "operators.h"

namespace ceras {
namespace {

// Strides in elements of a tensor that lies without gaps.
void plain_strides(const Tensor& tensor, int64_t* strides) {
  int64_t elements = 1;
  for (uint32_t d = tensor.rank; d-- > 0;) {
    strides[d] = elements;
    elements *= tensor.dims[d];
  }
}

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

void copy_box(const Layer& layer, int64_t in_start, const int64_t* from, int64_t out_start,
              const int64_t* to, const int64_t* dims) {
  const Tensor &in = layer.input(), &out = layer.output();
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

float as_float(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace

void reshape(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  if (layer.input().data != out.data)
    std::memmove(out.target, layer.input().data, static_cast<size_t>(out.bytes));
}

void transpose(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  int64_t own[MAX_RANK] = {}, from[MAX_RANK] = {}, to[MAX_RANK] = {};
  plain_strides(layer.input(), own);
  plain_strides(out, to);
  for (uint32_t d = 0; d < out.rank; ++d) from[d] = own[layer.attributes[d]];
  copy_box(layer, 0, from, 0, to, out.dims);
}

void slice(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  int64_t from[MAX_RANK] = {}, to[MAX_RANK] = {}, start = 0;
  plain_strides(layer.input(), from);
  plain_strides(out, to);
  for (uint32_t d = 0; d < out.rank; ++d) {
    start += from[d] * layer.attributes[d];
    from[d] *= static_cast<int32_t>(layer.attributes[out.rank + d]);
  }
  copy_box(layer, start, from, 0, to, out.dims);
}

void pad(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  int64_t from[MAX_RANK] = {}, to[MAX_RANK] = {}, start = 0;
  plain_strides(in, from);
  plain_strides(out, to);
  for (uint32_t d = 0; d < out.rank; ++d) {
    start += to[d] * layer.attributes[d];
    to[d] *= int64_t{layer.attributes[out.rank + d]} + 1;
  }
  const uint32_t value = layer.attributes[2 * out.rank];
  const auto elements = static_cast<size_t>(out.elements);
  switch (bytes_of(out.storage)) {
    case 1:
      std::memset(out.target, static_cast<uint8_t>(value), elements);
      break;
    case 2:
      std::fill_n(reinterpret_cast<uint16_t*>(out.target), elements, static_cast<uint16_t>(value));
      break;
    default:
      std::fill_n(reinterpret_cast<uint32_t*>(out.target), elements, value);
  }
  copy_box(layer, 0, from, start, to, in.dims);
}

void concat(const Layer& layer, Scratch&) {
  const Tensor& out = layer.output();
  const uint32_t axis = layer.attributes[0];
  int64_t inner = bytes_of(out.storage);
  for (uint32_t d = axis + 1; d < out.rank; ++d) inner *= out.dims[d];
  const int64_t row = out.dims[axis] * inner, rows = out.bytes / row;
  int64_t offset = 0;
  for (const Tensor* operand : layer.operands) {
    const int64_t bytes = operand->dims[axis] * inner;
    // An operand that was written to its place has nothing to move.
    for (int64_t i = 0; i < rows && operand->data != out.target + offset; ++i)
      std::memcpy(out.target + i * row + offset, operand->data + i * bytes,
                  static_cast<size_t>(bytes));
    offset += bytes;
  }
}

void resize_nearest(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const uint32_t* rows = layer.attributes.data() + 1;
  const uint32_t* columns = rows + out.dims[1];
  const int64_t pixel = out.dims[3] * bytes_of(out.storage);
  uint8_t* target = out.target;
  for (int64_t image = 0; image < out.dims[0]; ++image)
    for (int64_t y = 0; y < out.dims[1]; ++y)
      for (int64_t x = 0; x < out.dims[2]; ++x, target += pixel)
        std::memcpy(target,
                    in.data + ((image * in.dims[1] + rows[y]) * in.dims[2] + columns[x]) * pixel,
                    static_cast<size_t>(pixel));
}

void resize_linear(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const uint32_t* rows = layer.attributes.data() + 1;
  const uint32_t* columns = rows + 3 * out.dims[1];
  const int64_t channels = out.dims[3];
  float* target = out.float_target();
  for (int64_t image = 0; image < out.dims[0]; ++image)
    for (int64_t y = 0; y < out.dims[1]; ++y) {
      const float ty = as_float(rows[3 * y + 2]), sy = 1.0f - ty;
      const float* above = in.floats() + (image * in.dims[1] + rows[3 * y]) * in.dims[2] * channels;
      const float* below =
          in.floats() + (image * in.dims[1] + rows[3 * y + 1]) * in.dims[2] * channels;
      for (int64_t x = 0; x < out.dims[2]; ++x, target += channels) {
        const float tx = as_float(columns[3 * x + 2]), sx = 1.0f - tx;
        const int64_t left = columns[3 * x] * channels, right = columns[3 * x + 1] * channels;
        for (int64_t c = 0; c < channels; ++c) {
          // Along height first, as graph.resize says.
          const float first = above[left + c] * sy + below[left + c] * ty;
          const float second = above[right + c] * sy + below[right + c] * ty;
          target[c] = first * sx + second * tx;
        }
      }
    }
}

}  // namespace ceras
