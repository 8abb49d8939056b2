// Operators with two operands and broadcasting.
#include <algorithm>

#include "broadcast.h"
#include "checks.h"
#include "float_functions.h"
#include "integers.h"

namespace ceras {
namespace {

void read_operand(const Tensor& tensor, int64_t start, int64_t step, int64_t count,
                  int64_t factor, int64_t* out) {
  read_centred(tensor, start, step == 0 ? 1 : count, out);
  if (step == 0) std::fill(out + 1, out + count, out[0]);
  if (factor == 1) return;
  for (int64_t i = 0; i < count; ++i) out[i] *= factor;
}

template <class Number>
void combine(uint32_t kind, Number* lhs, const Number* rhs, int64_t count) {
  switch (kind) {
    case BINARY_ADD:
      for (int64_t i = 0; i < count; ++i) lhs[i] += rhs[i];
      return;
    case BINARY_SUB:
      for (int64_t i = 0; i < count; ++i) lhs[i] -= rhs[i];
      return;
    default:
      for (int64_t i = 0; i < count; ++i) lhs[i] *= rhs[i];
  }
}

// The functions of floats. Of equal extremes the second is selected, of NaNs the first.
void combine_floats(uint32_t kind, float* lhs, const float* rhs, int64_t count) {
  switch (kind) {
    case BINARY_DIV:
      for (int64_t i = 0; i < count; ++i) lhs[i] /= rhs[i];
      return;
    case BINARY_MIN:
      for (int64_t i = 0; i < count; ++i)
        lhs[i] = (lhs[i] < rhs[i] || lhs[i] != lhs[i]) ? lhs[i] : rhs[i];
      return;
    case BINARY_MAX:
      for (int64_t i = 0; i < count; ++i)
        lhs[i] = (lhs[i] > rhs[i] || lhs[i] != lhs[i]) ? lhs[i] : rhs[i];
      return;
    case BINARY_POW:
      for (int64_t i = 0; i < count; ++i) lhs[i] = power_f32(lhs[i], rhs[i]);
      return;
    default:
      combine(kind, lhs, rhs, count);
  }
}

void binary_integer(const Layer& layer, Scratch&) {
  const Rows<2> rows(layer);
  rows.each_part([&](const int64_t* from, int64_t at, int64_t count) {
    int64_t a[CHUNK], b[CHUNK];
    read_operand(*layer.operands[0], from[0], rows.steps[0], count, layer.factors[0], a);
    read_operand(*layer.operands[1], from[1], rows.steps[1], count, layer.factors[1], b);
    combine(layer.attributes[0], a, b, count);
    requantize(a, count, layer.requant);
    write_integers(layer.output(), at, count, a);
  });
}

void binary_float(const Layer& layer, Scratch&) {
  const Rows<2> rows(layer);
  const float *left = layer.operands[0]->floats(), *right = layer.operands[1]->floats();
  float* out = layer.output().float_target();
  rows.each_part([&](const int64_t* from, int64_t at, int64_t count) {
    float a[CHUNK], b[CHUNK];
    for (int64_t i = 0; i < count; ++i) a[i] = left[from[0] + i * rows.steps[0]];
    for (int64_t i = 0; i < count; ++i) b[i] = right[from[1] + i * rows.steps[1]];
    combine_floats(layer.attributes[0], a, b, count);
    apply_all(layer.function, layer.parameters, a, count);
    std::copy(a, a + count, out + at);
  });
}

// The operands of a quantized sum are multiplied and shifted.
const char* prepare(Layer& layer) {
  const auto& words = layer.attributes;
  if (words.size() != 3 && words.size() != 5) return "wrong number of attributes";
  for (size_t i = 0; i < 2; ++i) {
    const uint64_t multiplier = words.size() == 5 ? words[3 + i] : 1;
    if (words[1 + i] > 22 || multiplier < 1 || multiplier << words[1 + i] > MAX_FACTOR)
      return "unknown attribute";
    layer.factors[i] = static_cast<int64_t>(multiplier << words[1 + i]);
  }
  return nullptr;
}

const char* check(const Layer& layer) {
  const Tensor& out = layer.output();
  if (layer.attributes[0] > BINARY_MAX && layer.attributes[0] != BINARY_POW)
    return "unknown attribute";
  if (out.quantized() && layer.attributes[0] > BINARY_MUL) return "there is no quantized form";
  if (const char* reason = check_broadcast(layer)) return reason;
  for (const Tensor* operand : layer.operands)
    if (out.quantized() && !is_narrow(*operand)) return "operands of 8 or 16 bits are expected";
  return check_rescaling(layer);
}

const char* sum_fits(const Layer& layer) {
  const int64_t lhs = magnitude(*layer.operands[0]) * layer.factors[0];
  const int64_t rhs = magnitude(*layer.operands[1]) * layer.factors[1];
  return fits_64(layer.attributes[0] == BINARY_MUL ? lhs * rhs : lhs + rhs,
                 layer.requant.multiplier);
}

Run operator_of_binary(const Layer& layer) {
  return layer.output().quantized() ? binary_integer : binary_float;
}

const Operation OPERATIONS[] = {
    {5, 2, ANY, FUNCTION | REQUANT, check, operator_of_binary, over_equal, prepare, sum_fits,
     no_scratch, Circuit::Adder},
};

}  // namespace

const Family BINARY(OPERATIONS);

}  // namespace ceras
