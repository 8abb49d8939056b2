// The layout of tensors in memory: rows with gaps, and the rules for shared bytes.
#include "operation.h"

namespace ceras {
namespace {

// Return whether two tensors share no byte: their ranges are disjoint, or they are different
// columns of a wider value.
bool are_apart(const Tensor& a, const Tensor& b) {
  if (a.data + a.extent <= b.data || b.data + b.extent <= a.data) return true;
  const int64_t pitch = a.pitch * bytes_of(a.storage);
  if (!a.has_gaps() || !b.has_gaps() || pitch != b.pitch * bytes_of(b.storage)) return false;
  const int64_t column = ((b.data - a.data) % pitch + pitch) % pitch;
  return a.row * bytes_of(a.storage) <= column && column + b.row * bytes_of(b.storage) <= pitch;
}

}  // namespace

bool never(const Layer&, size_t) { return false; }

// For operators that write element i of the result after reading element i of the operand.
bool in_place(const Layer& layer, size_t index) {
  const Tensor &operand = *layer.operands[index], &out = layer.output();
  if (operand.data != out.data || bytes_of(operand.storage) < bytes_of(out.storage)) return false;
  return (!operand.has_gaps() && !out.has_gaps()) ||
         (operand.pitch == out.pitch && operand.row == out.row &&
          bytes_of(operand.storage) == bytes_of(out.storage));
}

// The same for operands that broadcast.
bool over_equal(const Layer& layer, size_t operand) {
  const Tensor &own = *layer.operands[operand], &out = layer.output();
  return same_shape(own, out) && own.storage == out.storage && in_place(layer, operand);
}

// For operators that need no copy if operand and result have the same bytes.
bool at_equal(const Layer& layer, size_t operand) {
  const Tensor &own = *layer.operands[operand], &out = layer.output();
  const int64_t unit = bytes_of(own.storage);
  if (own.data != out.data || own.has_gaps() != out.has_gaps()) return false;
  if (!own.has_gaps()) return own.bytes == out.bytes;
  return own.row == out.row && own.pitch == out.pitch && own.extent == out.extent &&
         unit == bytes_of(out.storage);
}

// Set the pitch of rows in bytes; 0 without gaps.
const char* lay_rows(Tensor& tensor, uint64_t pitch) {
  const int64_t unit = bytes_of(tensor.storage);
  tensor.row = tensor.rank > 0 ? tensor.dims[tensor.rank - 1] : 1;
  tensor.pitch = tensor.row;
  tensor.extent = tensor.bytes;
  if (pitch == 0) return nullptr;
  const int64_t rows = tensor.elements / tensor.row, apart = static_cast<int64_t>(pitch);
  if (rows < 2 || apart % unit != 0 || apart <= tensor.row * unit) return "the pitch is wrong";
  tensor.pitch = apart / unit;
  // Below 2^31 rows of a pitch below 2^32.
  tensor.extent = (rows - 1) * apart + tensor.row * unit;
  return nullptr;
}

const char* check_overlap(const Layer& layer) {
  const Tensor& out = layer.output();
  for (size_t i = 0; i < layer.operands.size(); ++i) {
    const Tensor& operand = *layer.operands[i];
    if (!operand.constant() && !layer.operation->may_overwrite(layer, i) &&
        !are_apart(operand, out))
      return "the result overlaps an operand";
  }
  return nullptr;
}

}  // namespace ceras
