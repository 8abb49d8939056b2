// Operators of the CPU that move elements, linear resizing included.
#include <cstring>

#include "operators.h"

namespace ceras {
namespace {

template <class Word>
void permute(const Layer& layer, const int64_t* strides) {
  const Tensor& out = layer.output();
  const Word* in = reinterpret_cast<const Word*>(layer.input().data);
  Word* target = reinterpret_cast<Word*>(out.target);
  const uint32_t last = out.rank - 1;
  int64_t index[MAX_RANK] = {};
  int64_t from = 0;
  for (int64_t at = 0; at < out.elements; at += out.dims[last]) {
    for (int64_t i = 0; i < out.dims[last]; ++i) target[at + i] = in[from + i * strides[last]];
    for (uint32_t d = last; d-- > 0;) {
      from += strides[d];
      if (++index[d] < out.dims[d]) break;
      from -= out.dims[d] * strides[d];
      index[d] = 0;
    }
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

void transpose(const Layer& layer, Scratch& scratch) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (out.rank == 0) return reshape(layer, scratch);
  int64_t own[MAX_RANK] = {}, strides[MAX_RANK] = {}, elements = 1;
  for (uint32_t d = in.rank; d-- > 0;) {
    own[d] = elements;
    elements *= in.dims[d];
  }
  for (uint32_t d = 0; d < out.rank; ++d) strides[d] = own[layer.attributes[d]];
  switch (bytes_of(out.storage)) {
    case 1:
      return permute<uint8_t>(layer, strides);
    case 2:
      return permute<uint16_t>(layer, strides);
    default:
      return permute<uint32_t>(layer, strides);
  }
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
    for (int64_t i = 0; i < rows; ++i)
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
