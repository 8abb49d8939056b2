// Data movement operators of the CPU, and linear resizing.
#include <algorithm>
#include <cstring>

#include "boxes.h"
#include "checks.h"
#include "float_functions.h"
#include "integers.h"

namespace ceras {
namespace {

// Copy a box of `dims` elements with strides.
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
              int64_t out_start, const int64_t* to, const int64_t* dims, uint32_t rank) {
  with_word(out.storage, [&](auto word) {
    using Word = decltype(word);
    copy_words(reinterpret_cast<const Word*>(in.data) + in_start, from,
               reinterpret_cast<Word*>(out.target) + out_start, to, dims, rank);
  });
}

// Fill `count` elements from `start`. A pattern for 64 bits is sign-extended from 32 bits.
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
    case 8:
      std::fill_n(reinterpret_cast<int64_t*>(out.target) + start, elements,
                  static_cast<int64_t>(static_cast<int32_t>(value)));
      break;
    default:
      std::fill_n(reinterpret_cast<uint32_t*>(out.target) + start, elements, value);
  }
}

void reshape(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.data == out.data) return;
  const bool gaps = in.has_gaps() || out.has_gaps();
  const int64_t unit = bytes_of(out.storage), width = gaps ? out.row : out.elements;
  for (int64_t row = 0; row < out.elements / width; ++row)
    std::memmove(out.target + row * out.pitch * unit, in.data + row * in.pitch * unit,
                 static_cast<size_t>(width * unit));
}

void transpose(const Layer& layer, Scratch&) { transpose_boxes(layer, copy_box); }

void slice(const Layer& layer, Scratch&) { slice_boxes(layer, copy_box); }

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
  copy_box(in, 0, from, out, start, to, in.dims, out.rank);
}

// The list of indices of each dimension of the result; null for unchanged dimensions.
struct Lists {
  const uint32_t* of[MAX_RANK] = {};

  explicit Lists(const Layer& layer) {
    const uint32_t* at = layer.attributes.data() + 1;
    for (uint32_t d = 0; d < layer.output().rank; ++d)
      if (layer.attributes[0] >> d & 1u) {
        of[d] = at;
        at += layer.output().dims[d];
      }
  }

  int64_t source(uint32_t d, int64_t index) const { return of[d] == nullptr ? index : of[d][index]; }
};

template <class Word>
void gather_words(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const Lists lists(layer);
  int64_t from[MAX_RANK] = {};
  strides_of(in, from);
  const uint32_t last = out.rank == 0 ? 0 : out.rank - 1;
  for (int64_t row = 0; row < out.elements / out.row; ++row) {
    int64_t start = 0, rest = row;
    for (uint32_t d = last; d-- > 0; rest /= out.dims[d])
      start += lists.source(d, rest % out.dims[d]) * from[d];
    const Word* x = reinterpret_cast<const Word*>(in.data) + start;
    Word* y = reinterpret_cast<Word*>(out.target) + row * out.pitch;
    const uint32_t* indices = lists.of[last];
    if (indices == nullptr)
      std::memcpy(y, x, static_cast<size_t>(out.row) * sizeof(Word));
    else
      for (int64_t i = 0; i < out.row; ++i) y[i] = x[indices[i]];
  }
}

void gather(const Layer& layer, Scratch&) {
  with_word(layer.output().storage, [&](auto word) { gather_words<decltype(word)>(layer); });
}

void concat(const Layer& layer, Scratch&) { concat_boxes(layer, copy_box); }

// Copy the row `from` of a matrix to the row `to` of another matrix.
void copy_row(const Tensor& in, int64_t from, const Tensor& out, int64_t to) {
  const int64_t unit = bytes_of(out.storage);
  std::memcpy(out.target + to * out.pitch * unit, in.data + from * in.pitch * unit,
              static_cast<size_t>(out.row * unit));
}

// Index `i` of the second operand. Negative indices count from the end of `rows`.
int64_t index_of(const Layer& layer, int64_t i, int64_t rows) {
  int64_t index = 0;
  read_integers(*layer.operands[1], i, 1, &index);
  return index < 0 ? index + rows : index;
}

// Indices outside are clamped to the nearest row.
void take(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const int64_t rows = in.dims[0];
  for (int64_t i = 0; i < out.dims[0]; ++i)
    copy_row(in, std::clamp<int64_t>(index_of(layer, i, rows), 0, rows - 1), out, i);
}

// Of equal indices, the last counts. Indices outside are ignored.
void put(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &rows = *layer.operands[2], &out = layer.output();
  for (int64_t i = 0; i < out.dims[0]; ++i) copy_row(in, i, out, i);
  for (int64_t i = 0; i < rows.dims[0]; ++i) {
    const int64_t index = index_of(layer, i, out.dims[0]);
    if (index >= 0 && index < out.dims[0]) copy_row(rows, i, out, index);
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
          // Interpolate along the height first, as graph.resize specifies.
          const float first = above[left + c] * sy + below[left + c] * ty;
          const float second = above[right + c] * sy + below[right + c] * ty;
          target[c] = first * sx + second * tx;
        }
      }
    }
}

const char* check_reshape(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.elements != out.elements) return "the shapes differ in size";
  const bool gaps = in.has_gaps() || out.has_gaps();
  return gaps && in.row != out.row ? "rows with gaps cannot be reshaped" : nullptr;
}

const char* check_transpose(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const auto& words = layer.attributes;
  if (words.size() != out.rank || in.rank != out.rank) return "wrong rank";
  uint32_t seen = 0;
  for (uint32_t i = 0; i < out.rank; ++i) {
    if (words[i] >= out.rank || (seen >> words[i] & 1u)) return "not a permutation";
    seen |= 1u << words[i];
    if (in.dims[words[i]] != out.dims[i]) return "the result has the wrong shape";
  }
  return nullptr;
}

const char* check_concat(const Layer& layer) {
  const Tensor& out = layer.output();
  const auto& words = layer.attributes;
  if (words[0] >= out.rank) return "the axis does not exist";
  int64_t total = 0;
  for (const Tensor* operand : layer.operands) {
    if (operand->rank != out.rank) return "wrong rank";
    for (uint32_t i = 0; i < out.rank; ++i)
      if (i != words[0] && operand->dims[i] != out.dims[i]) return "an operand does not fit";
    total += operand->dims[words[0]];
    if (total > out.dims[words[0]]) return "an operand does not fit";
  }
  return total == out.dims[words[0]] ? nullptr : "the operands do not fill the result";
}

const char* check_resize(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const auto& words = layer.attributes;
  if (in.rank != 4 || out.rank != 4 || in.dims[0] != out.dims[0] || in.dims[3] != out.dims[3])
    return "only height and width can change";
  const bool linear = !words.empty() && words[0] == RESIZE_LINEAR;
  if (words.empty() || words[0] > RESIZE_LINEAR || (linear && out.quantized()))
    return "unknown attribute";
  const int64_t entry = linear ? 3 : 1;
  if (static_cast<int64_t>(words.size()) != 1 + entry * (out.dims[1] + out.dims[2]))
    return "wrong number of attributes";
  size_t at = 1;
  for (int axis = 1; axis <= 2; ++axis)
    for (int64_t i = 0; i < out.dims[axis]; ++i, at += static_cast<size_t>(entry))
      for (size_t j = 0; j < (linear ? 2u : 1u); ++j)
        if (words[at + j] >= in.dims[axis]) return "an index is outside the input";
  return nullptr;
}

// The attributes are the starts, then the signed strides.
const char* check_slice(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.rank != out.rank || layer.attributes.size() != 2 * size_t{out.rank}) return "wrong rank";
  for (uint32_t d = 0; d < out.rank; ++d) {
    const int64_t start = layer.attributes[d];
    const int64_t stride = static_cast<int32_t>(layer.attributes[out.rank + d]);
    // Both are below 2^31, so the product is exact.
    const int64_t last = start + (out.dims[d] - 1) * stride;
    if (stride == 0 || start >= in.dims[d] || last < 0 || last >= in.dims[d])
      return "elements are outside the input";
  }
  return nullptr;
}

// The elements before, the elements between neighbours, and the stored value.
const char* check_pad(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.rank != out.rank || layer.attributes.size() != 2 * size_t{out.rank} + 1)
    return "wrong rank";
  for (uint32_t d = 0; d < out.rank; ++d) {
    const int64_t step = int64_t{layer.attributes[out.rank + d]} + 1;
    if (layer.attributes[d] + (in.dims[d] - 1) * step >= out.dims[d])
      return "elements are outside the result";
  }
  return nullptr;
}

// The dimensions with lists, as bits, then the lists.
const char* check_gather(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const auto& words = layer.attributes;
  if (in.rank != out.rank) return "wrong rank";
  if (words.empty() || words[0] >= 1u << out.rank) return "unknown attribute";
  size_t at = 1;
  for (uint32_t d = 0; d < out.rank; ++d) {
    if ((words[0] >> d & 1u) == 0) {
      if (in.dims[d] != out.dims[d]) return "the result has the wrong shape";
      continue;
    }
    const auto count = static_cast<size_t>(out.dims[d]);
    if (words.size() - at < count) return "wrong number of attributes";
    for (size_t end = at + count; at < end; ++at)
      if (words[at] >= in.dims[d]) return "an index is outside the input";
  }
  return at == words.size() ? nullptr : "wrong number of attributes";
}

// Check a matrix, and rows for a list of indices.
const char* check_rows(const Layer& layer, const Tensor& rows) {
  const Tensor &in = layer.input(), &indices = *layer.operands[1];
  if (in.rank != 2 || indices.rank != 1 || rows.rank != 2 || rows.dims[0] != indices.dims[0] ||
      rows.dims[1] != in.dims[1])
    return "the shapes do not fit rows and indices";
  if (!same_type(in, rows) || !same_type(in, layer.output()))
    return "the result must have the type of the operands";
  if (!is_plain(indices) || indices.storage == Storage::Bool)
    return "indices of scale 1 without zero point are expected";
  return nullptr;
}

const char* check_take(const Layer& layer) { return check_rows(layer, layer.output()); }

const char* check_put(const Layer& layer) {
  if (!same_shape(layer.input(), layer.output())) return "the result has the wrong shape";
  return check_rows(layer, *layer.operands[2]);
}

Run operator_of_resize(const Layer& layer) {
  return layer.attributes[0] == RESIZE_LINEAR ? resize_linear : resize_nearest;
}

// The FPGA can also copy.
constexpr Operation mover(uint16_t opcode, int operands, int words, Check check, Choose run,
                          Overlap may_overwrite = never, Overlap keeps = never) {
  return {opcode, operands, words, SAME_TYPE | ALL_STORAGES, check, run, may_overwrite,
          accept_as_it_is, operand_fits, no_scratch, Circuit::Mover, work_of_elements, no_scratch,
          pack_nothing, keeps};
}

const Operation OPERATIONS[] = {
    mover(8, 1, 0, check_reshape, always<reshape>, in_place, at_equal),
    mover(9, 1, ANY, check_transpose, always<transpose>),
    mover(10, ANY, 1, check_concat, always<concat>, is_in_its_slice, is_in_its_slice),
    {11, 1, ANY, SAME_TYPE, check_resize, operator_of_resize, never, accept_as_it_is, operand_fits,
     no_scratch, Circuit::Mover},
    mover(15, 1, ANY, check_slice, always<slice>),
    {16, 1, ANY, SAME_TYPE | ALL_STORAGES, check_pad, always<pad>},
    {23, 2, 0, ALL_STORAGES, check_take, always<take>},
    {24, 3, 0, ALL_STORAGES, check_put, always<put>},
    {25, 1, ANY, SAME_TYPE | ALL_STORAGES, check_gather, always<gather>},
};

}  // namespace

const Family MOVEMENT(OPERATIONS);

// Return whether an operand of a concatenation is in place.
bool is_in_its_slice(const Layer& layer, size_t index) {
  const Tensor &operand = *layer.operands[index], &out = layer.output();
  const uint32_t axis = layer.attributes[0];
  int64_t own[MAX_RANK] = {}, whole[MAX_RANK] = {}, start = 0;
  strides_of(operand, own);
  strides_of(out, whole);
  for (size_t i = 0; i < index; ++i) start += layer.operands[i]->dims[axis] * whole[axis];
  if (operand.data != out.data + start * bytes_of(out.storage)) return false;
  for (uint32_t d = 0; d < out.rank; ++d)
    if (operand.dims[d] > 1 && own[d] != whole[d]) return false;
  return true;
}

}  // namespace ceras
