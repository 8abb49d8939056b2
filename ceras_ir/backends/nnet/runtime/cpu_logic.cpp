// Operators of plain integers and booleans: wrapping arithmetic, comparison, selection, conversion.
#include <cstring>

#include "broadcast.h"
#include "checks.h"

namespace ceras {
namespace {

// `count` elements of an operand that advances by `step`.
void read_plain(const Tensor& tensor, int64_t start, int64_t step, int64_t count, int64_t* out) {
  read_integers(tensor, start, step == 0 ? 1 : count, out);
  if (step == 0) std::fill(out + 1, out + count, out[0]);
}

// Division truncates. A division by 0 gives 0.
int64_t quotient(int64_t a, int64_t b) {
  if (b == 0) return 0;
  return b == -1 ? static_cast<int64_t>(0 - static_cast<uint64_t>(a)) : a / b;
}

// Exponentiation by squaring. A reciprocal truncates; the reciprocal of 0 is 0.
uint64_t power(uint64_t a, int64_t exponent) {
  const bool is_unit = a == 1 || a + 1 == 0;
  if (exponent < 0 && !is_unit) return 0;
  // For a base of 1 or -1, the last bit of the exponent determines the sign.
  uint64_t b = exponent < 0 ? exponent & 1 : exponent, result = 1;
  for (; b != 0; b >>= 1, a *= a)
    if ((b & 1) != 0) result *= a;
  return result;
}

template <class Combine>
void combine(int64_t* lhs, const int64_t* rhs, int64_t count, Combine one) {
  for (int64_t i = 0; i < count; ++i) lhs[i] = static_cast<int64_t>(one(lhs[i], rhs[i]));
}

// The low bits of 64-bit arithmetic equal those of narrower arithmetic.
void combine_integers(uint32_t kind, int64_t* lhs, const int64_t* rhs, int64_t count) {
  switch (kind) {
    case BINARY_ADD:
      return combine(lhs, rhs, count, [](uint64_t a, uint64_t b) { return a + b; });
    case BINARY_SUB:
      return combine(lhs, rhs, count, [](uint64_t a, uint64_t b) { return a - b; });
    case BINARY_MUL:
      return combine(lhs, rhs, count, [](uint64_t a, uint64_t b) { return a * b; });
    case BINARY_DIV:
      return combine(lhs, rhs, count, quotient);
    case BINARY_MIN:
      return combine(lhs, rhs, count, [](int64_t a, int64_t b) { return a < b ? a : b; });
    case BINARY_MAX:
      return combine(lhs, rhs, count, [](int64_t a, int64_t b) { return a > b ? a : b; });
    case INTEGER_AND:
      return combine(lhs, rhs, count, [](uint64_t a, uint64_t b) { return a & b; });
    case INTEGER_OR:
      return combine(lhs, rhs, count, [](uint64_t a, uint64_t b) { return a | b; });
    case BINARY_POW:
      return combine(lhs, rhs, count, power);
    default:
      return combine(lhs, rhs, count, [](uint64_t a, uint64_t b) { return a ^ b; });
  }
}

void integer_binary(const Layer& layer, Scratch&) {
  const Rows<2> rows(layer);
  rows.each_part([&](const int64_t* from, int64_t at, int64_t count) {
    int64_t a[CHUNK], b[CHUNK];
    read_plain(*layer.operands[0], from[0], rows.steps[0], count, a);
    read_plain(*layer.operands[1], from[1], rows.steps[1], count, b);
    combine_integers(layer.attributes[0], a, b, count);
    write_integers(layer.output(), at, count, a);
  });
}

template <class Number>
bool holds(uint32_t kind, Number a, Number b) {
  return kind == COMPARE_EQUAL ? a == b : kind == COMPARE_LESS ? a < b : a <= b;
}

void compare(const Layer& layer, Scratch&) {
  const Rows<2> rows(layer);
  const Tensor &left = *layer.operands[0], &right = *layer.operands[1];
  const uint32_t kind = layer.attributes[0];
  rows.each_part([&](const int64_t* from, int64_t at, int64_t count) {
    uint8_t* out = layer.output().target + at;
    if (is_float(left)) {
      for (int64_t i = 0; i < count; ++i)
        out[i] = holds(kind, left.floats()[from[0] + i * rows.steps[0]],
                       right.floats()[from[1] + i * rows.steps[1]]);
      return;
    }
    int64_t a[CHUNK], b[CHUNK];
    read_plain(left, from[0], rows.steps[0], count, a);
    read_plain(right, from[1], rows.steps[1], count, b);
    for (int64_t i = 0; i < count; ++i) out[i] = holds(kind, a[i], b[i]);
  });
}

template <class Word>
void select_words(const Layer& layer) {
  const Rows<3> rows(layer);
  const uint8_t* condition = layer.operands[0]->data;
  const Word* left = reinterpret_cast<const Word*>(layer.operands[1]->data);
  const Word* right = reinterpret_cast<const Word*>(layer.operands[2]->data);
  Word* out = reinterpret_cast<Word*>(layer.output().target);
  rows.each_part([&](const int64_t* from, int64_t at, int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      out[at + i] = condition[from[0] + i * rows.steps[0]] != 0
                        ? left[from[1] + i * rows.steps[1]]
                        : right[from[2] + i * rows.steps[2]];
  });
}

void select(const Layer& layer, Scratch&) {
  with_word(layer.output().storage, [&](auto word) { select_words<decltype(word)>(layer); });
}

// Truncate, then clamp. NaN becomes 0. The bounds are powers of two and therefore exact.
int64_t whole(float value, Storage storage) {
  if (value != value) return 0;
  const bool wide = storage == Storage::I64;
  const int64_t low = wide ? INT64_MIN : low_of(storage);
  const int64_t high = wide ? INT64_MAX : high_of(storage);
  const float below = static_cast<float>(low), above = wide ? 0x1p63f : static_cast<float>(high + 1);
  return value <= below ? low : value >= above ? high : static_cast<int64_t>(value);
}

void cast(const Layer& layer, Scratch&) {
  const Rows<1> rows(layer);
  const Tensor &in = layer.input(), &out = layer.output();
  rows.each_part([&](const int64_t* from, int64_t at, int64_t count) {
    int64_t values[CHUNK];
    const float* x = in.floats() + from[0];
    if (is_float(in) && is_float(out)) {
      std::copy(x, x + count, out.float_target() + at);
      return;
    }
    if (!is_float(in))
      read_plain(in, from[0], rows.steps[0], count, values);
    else if (out.storage == Storage::Bool)
      for (int64_t i = 0; i < count; ++i) values[i] = x[i] != 0;
    else
      for (int64_t i = 0; i < count; ++i) values[i] = whole(x[i], out.storage);
    if (!is_float(out)) return write_integers(out, at, count, values);
    for (int64_t i = 0; i < count; ++i) out.float_target()[at + i] = static_cast<float>(values[i]);
  });
}

const char* check_integer_binary(const Layer& layer) {
  const Tensor& out = layer.output();
  if (layer.attributes[0] > BINARY_POW) return "unknown attribute";
  if (!is_plain(out)) return "integers of scale 1 without zero point are expected";
  return check_broadcast(layer);
}

const char* check_compare(const Layer& layer) {
  if (layer.attributes[0] > COMPARE_LESS_OR_EQUAL) return "unknown attribute";
  if (!same_type(*layer.operands[0], *layer.operands[1])) return "the operands differ in type";
  if (layer.output().storage != Storage::Bool) return "a result of booleans is expected";
  return check_broadcast(layer);
}

const char* check_select(const Layer& layer) {
  const Tensor& out = layer.output();
  if (layer.operands[0]->storage != Storage::Bool) return "a condition of booleans is expected";
  if (!same_type(*layer.operands[1], out) || !same_type(*layer.operands[2], out))
    return "both choices and the result must have the same type";
  return check_broadcast(layer);
}

const char* check_cast(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  return (is_float(in) || is_plain(in)) && (is_float(out) || is_plain(out))
             ? nullptr
             : "floats, or integers of scale 1 without zero point, are expected";
}

const Operation OPERATIONS[] = {
    {26, 2, 1, SAME_TYPE | ALL_STORAGES, check_integer_binary, always<integer_binary>, over_equal},
    {27, 2, 1, ALL_STORAGES, check_compare, always<compare>},
    {28, 3, 0, ALL_STORAGES, check_select, always<select>},
    {29, 1, 0, SAME_SHAPE | ALL_STORAGES, check_cast, always<cast>},
};

}  // namespace

const Family LOGIC(OPERATIONS);

}  // namespace ceras
