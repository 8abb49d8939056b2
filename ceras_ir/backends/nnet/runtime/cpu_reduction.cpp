// Reductions, arg and top_k on the CPU.
#include <algorithm>
#include <numeric>

#include "checks.h"
#include "float_functions.h"

namespace ceras {
namespace {

// The reduced or the remaining dimensions, with strides.
struct Dimensions {
  int64_t extents[MAX_RANK], steps[MAX_RANK];
  uint32_t rank = 0;

  void add(int64_t extent, int64_t step) {
    extents[rank] = extent;
    steps[rank++] = step;
  }

  // Calls `body(offset)` for each index, in row-major order.
  template <class Body>
  void each(Body body) const {
    int64_t index[MAX_RANK] = {}, at = 0;
    for (;;) {
      body(at);
      uint32_t d = rank;
      for (;;) {
        if (d-- == 0) return;
        at += steps[d];
        if (++index[d] < extents[d]) break;
        at -= extents[d] * steps[d];
        index[d] = 0;
      }
    }
  }
};

bool is_axis(const Layer& layer, uint32_t d) {
  for (size_t i = 1; i < layer.attributes.size(); ++i)
    if (layer.attributes[i] == d) return true;
  return false;
}

// Reduce in order from the first element. Of equal extremes the second is selected, of NaNs the
// first, as in `binary`.
template <class Element, class Combine>
void reduce_by(const Layer& layer, Combine combine) {
  const Tensor &in = layer.input(), &out = layer.output();
  int64_t from[MAX_RANK] = {};
  strides_of(in, from);
  Dimensions kept, reduced;
  for (uint32_t d = 0; d < in.rank; ++d)
    (is_axis(layer, d) ? reduced : kept).add(in.dims[d], from[d]);
  const Element* x = reinterpret_cast<const Element*>(in.data);
  Element* y = reinterpret_cast<Element*>(out.target);
  int64_t element = 0;  // of the result
  kept.each([&](int64_t start) {
    Element total = x[start];
    bool first = true;
    reduced.each([&](int64_t at) {
      if (!first) total = combine(total, x[start + at]);
      first = false;
    });
    y[element / out.row * out.pitch + element % out.row] = total;
    ++element;
  });
}

// Sums and products wrap around.
template <class Integer>
void reduce_integers(const Layer& layer) {
  switch (layer.attributes[0]) {
    case REDUCE_SUM:
      return reduce_by<Integer>(layer, [](Integer a, Integer b) {
        return static_cast<Integer>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      });
    case REDUCE_PRODUCT:
      return reduce_by<Integer>(layer, [](Integer a, Integer b) {
        return static_cast<Integer>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      });
    case REDUCE_MAX:
      return reduce_by<Integer>(layer, [](Integer a, Integer b) { return a < b ? b : a; });
    default:
      return reduce_by<Integer>(layer, [](Integer a, Integer b) { return b < a ? b : a; });
  }
}

// Return whether any element is true, or all are.
void reduce_booleans(const Layer& layer) {
  if (layer.attributes[0] == REDUCE_SUM || layer.attributes[0] == REDUCE_MAX)
    return reduce_by<uint8_t>(layer, [](uint8_t a, uint8_t b) -> uint8_t { return (a | b) != 0; });
  reduce_by<uint8_t>(layer, [](uint8_t a, uint8_t b) -> uint8_t { return a != 0 && b != 0; });
}

void reduce(const Layer& layer, Scratch&) {
  const Storage storage = layer.output().storage;
  if (storage == Storage::Bool) return reduce_booleans(layer);
  if (storage != Storage::F32)
    return with_integer(storage, [&](auto number) { reduce_integers<decltype(number)>(layer); });
  switch (layer.attributes[0]) {
    case REDUCE_SUM:
      return reduce_by<float>(layer, [](float a, float b) { return a + b; });
    case REDUCE_PRODUCT:
      return reduce_by<float>(layer, [](float a, float b) { return a * b; });
    case REDUCE_MAX:
      return reduce_by<float>(layer, [](float a, float b) { return a > b || a != a ? a : b; });
    default:
      return reduce_by<float>(layer, [](float a, float b) { return a < b || a != a ? a : b; });
  }
}

// Check that reduced axes have extent 1 in the result, and the other axes are unchanged.
template <class IsAxis>
const char* check_reduced(const Layer& layer, IsAxis is_reduced) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (in.rank != out.rank) return "wrong rank";
  for (uint32_t d = 0; d < in.rank; ++d)
    if (out.dims[d] != (is_reduced(d) ? 1 : in.dims[d])) return "the result has the wrong shape";
  return nullptr;
}

// The kind, then the axes in ascending order, whose extents become 1.
const char* check_reduce(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const auto& words = layer.attributes;
  if (words.empty() || words[0] > REDUCE_MIN) return "unknown attribute";
  if (out.quantized() && !is_plain(out) && words[0] < REDUCE_MAX)
    return "a sum of floats or of plain integers is expected";
  for (size_t i = 1; i < words.size(); ++i)
    if (words[i] >= in.rank || (i > 1 && words[i] <= words[i - 1]))
      return "an axis does not exist, or the axes are not in ascending order";
  return check_reduced(layer, [&](uint32_t d) { return is_axis(layer, d); });
}

// The index of the extreme of each row along an axis.
template <class Element>
void arg_of(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const uint32_t axis = layer.attributes[1];
  const bool least = layer.attributes[0] == 1, last = layer.attributes[2] != 0;
  int64_t from[MAX_RANK] = {};
  strides_of(in, from);
  Dimensions kept;
  for (uint32_t d = 0; d < in.rank; ++d)
    if (d != axis) kept.add(in.dims[d], from[d]);
  const Element* x = reinterpret_cast<const Element*>(in.data);
  int64_t* y = reinterpret_cast<int64_t*>(out.target);
  int64_t element = 0;  // of the result
  kept.each([&](int64_t start) {
    int64_t index = 0;
    Element best = x[start];
    for (int64_t i = 1; i < in.dims[axis]; ++i) {
      const Element candidate = x[start + i * from[axis]];
      const Element a = least ? best : candidate, b = least ? candidate : best;
      if (!(last ? a >= b : a > b)) continue;
      best = candidate;
      index = i;
    }
    y[element / out.row * out.pitch + element % out.row] = index;
    ++element;
  });
}

void arg(const Layer& layer, Scratch&) {
  with_number(layer.input().storage, [&](auto number) { arg_of<decltype(number)>(layer); });
}

// 0 for maximum or 1 for minimum; the axis; 1 if the last of equal elements is selected.
const char* check_arg(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const auto& words = layer.attributes;
  if (words[0] > 1 || words[2] > 1) return "unknown attribute";
  if (words[1] >= in.rank) return "the axis does not exist";
  if (in.storage == Storage::Bool) return "numbers are expected";
  if (out.storage != Storage::I64) return "integers of 64 bits are expected";
  return check_reduced(layer, [&](uint32_t d) { return d == words[1]; });
}

// The indices of the first elements in order of each row, with a heap that has the last on top.
template <class Element>
void top_k_of(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const bool least = layer.attributes[0] == 1;
  for (int64_t row = 0; row < in.elements / in.row; ++row) {
    const Element* x = reinterpret_cast<const Element*>(in.data) + row * in.pitch;
    int64_t* heap = reinterpret_cast<int64_t*>(out.target) + row * out.pitch;
    int64_t* end = heap + out.row;
    const auto comes_first = [&](int64_t a, int64_t b) {
      const Element u = x[a], v = x[b];
      if (u < v || v < u) return least ? u < v : v < u;
      // NaN is ordered after all numbers.
      if ((u != u) != (v != v)) return v != v;
      return a < b;
    };
    std::iota(heap, end, 0);
    std::make_heap(heap, end, comes_first);
    for (int64_t i = out.row; i < in.row; ++i) {
      if (!comes_first(i, heap[0])) continue;
      std::pop_heap(heap, end, comes_first);
      end[-1] = i;
      std::push_heap(heap, end, comes_first);
    }
    std::sort_heap(heap, end, comes_first);
  }
}

void top_k(const Layer& layer, Scratch&) {
  with_number(layer.input().storage, [&](auto number) { top_k_of<decltype(number)>(layer); });
}

// 0 for maximum or 1 for minimum. The result has the number of indices per row.
const char* check_top_k(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  if (layer.attributes[0] > 1) return "unknown attribute";
  if (in.storage == Storage::Bool) return "numbers are expected";
  if (out.storage != Storage::I64) return "integers of 64 bits are expected";
  if (in.rank == 0 || in.rank != out.rank) return "wrong rank";
  for (uint32_t d = 0; d + 1 < in.rank; ++d)
    if (out.dims[d] != in.dims[d]) return "the result has the wrong shape";
  return out.row > in.row ? "the result has the wrong shape" : nullptr;
}

double work_of_input(const Layer& layer) { return static_cast<double>(layer.input().elements); }

const Operation OPERATIONS[] = {
    {30, 1, 3, ALL_STORAGES, check_arg, always<arg>, never, accept_as_it_is, operand_fits,
     no_scratch, Circuit::None, work_of_input},
    {31, 1, 1, ALL_STORAGES, check_top_k, always<top_k>, never, accept_as_it_is, operand_fits,
     no_scratch, Circuit::None, work_of_input},
    {18, 1, ANY, SAME_TYPE | ALL_STORAGES, check_reduce, always<reduce>},
};

}  // namespace

const Family REDUCTION(OPERATIONS);

}  // namespace ceras
