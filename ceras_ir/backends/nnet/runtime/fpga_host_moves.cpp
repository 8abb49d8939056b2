// The host side of copies: the boxes of slices, transposed tensors, concatenations and resizes.
//
// A box has six dimensions. Missing dimensions are prepended with extent 1.
#include "boxes.h"

namespace ceras {
namespace {

// The last `count` dimensions of a box, in elements.
FpgaBox box_of(const Tensor& in, int64_t from_start, const int64_t* from, const Tensor& out,
               int64_t to_start, const int64_t* to, const int64_t* dims, uint32_t count) {
  const int64_t unit = bytes_of(out.storage);
  FpgaMove move{};
  for (int i = 0; i < FPGA_BOX; ++i) move.dims[i] = 1;
  // With a single element, the stride is arbitrary.
  move.from[FPGA_BOX - 1] = move.to[FPGA_BOX - 1] = unit;
  move.unit = static_cast<int>(unit);
  const int first = FPGA_BOX - static_cast<int>(count);
  for (uint32_t d = 0; d < count; ++d) {
    const int i = first + static_cast<int>(d);
    move.dims[i] = static_cast<int>(dims[d]);
    move.from[i] = from[d] * unit;
    move.to[i] = to[d] * unit;
  }
  return {move, reinterpret_cast<const int8_t*>(in.data) + from_start * unit,
          reinterpret_cast<int8_t*>(out.target) + to_start * unit};
}

// With gaps, input and result have equal rows. Without gaps, all elements are a single run.
FpgaBox reshaped(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const bool gaps = in.has_gaps() || out.has_gaps();
  const int64_t row = gaps ? out.row : out.elements;
  const int64_t dims[] = {out.elements / row, row}, from[] = {in.pitch, 1}, to[] = {out.pitch, 1};
  return box_of(in, 0, from, out, 0, to, dims, 2);
}

// The rows and columns of the input are repeated in the result.
FpgaBox repeated(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const int64_t rows = out.dims[1] / in.dims[1], columns = out.dims[2] / in.dims[2];
  int64_t own[MAX_RANK] = {}, whole[MAX_RANK] = {};
  strides_of(in, own);
  strides_of(out, whole);
  const int64_t dims[] = {in.dims[0], in.dims[1], rows, in.dims[2], columns, in.dims[3]};
  const int64_t from[] = {own[0], own[1], 0, own[2], 0, own[3]};
  const int64_t to[] = {whole[0], whole[1] * rows, whole[1], whole[2] * columns, whole[2],
                        whole[3]};
  return box_of(in, 0, from, out, 0, to, dims, FPGA_BOX);
}

bool repeats_all(const uint32_t* indices, int64_t from, int64_t to) {
  if (to % from != 0) return false;
  for (int64_t i = 0; i < to; ++i)
    if (indices[i] != i / (to / from)) return false;
  return true;
}

constexpr uint16_t RESHAPE = 8, TRANSPOSE = 9, CONCAT = 10, RESIZE = 11;

}  // namespace

const char* check_fpga_move(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const uint16_t opcode = layer.operation->opcode;
  for (const Tensor* operand : layer.operands)
    if (operand->constant()) return "the FPGA copies only tensors in the arena";
  if (opcode != RESHAPE && out.rank > static_cast<uint32_t>(FPGA_MAX_RANK))
    return "the FPGA copies tensors of at most 5 dimensions";
  if (opcode != RESIZE) return nullptr;
  const uint32_t* rows = layer.attributes.data() + 1;
  if (layer.attributes[0] != RESIZE_NEAREST || !repeats_all(rows, in.dims[1], out.dims[1]) ||
      !repeats_all(rows + out.dims[1], in.dims[2], out.dims[2]))
    return "the FPGA repeats rows and columns an integer number of times";
  return nullptr;
}

bool moves_any(const Layer& layer) {
  const Tensor& out = layer.output();
  if (layer.operation->opcode == RESHAPE) return layer.input().data != out.data;
  if (layer.operation->opcode != CONCAT) return true;
  for (size_t i = 0; i < layer.operands.size(); ++i)
    if (!is_in_its_slice(layer, i)) return true;
  return false;
}

std::vector<FpgaBox> fpga_boxes_of(const Layer& layer) {
  std::vector<FpgaBox> boxes;
  const auto add = [&boxes](const auto&... box) { boxes.push_back(box_of(box...)); };
  switch (layer.operation->opcode) {
    case RESHAPE:
      return {reshaped(layer)};
    case RESIZE:
      return {repeated(layer)};
    case TRANSPOSE:
      transpose_boxes(layer, add);
      break;
    case CONCAT:
      concat_boxes(layer, add);
      break;
    default:
      slice_boxes(layer, add);
  }
  return boxes;
}

}  // namespace ceras
