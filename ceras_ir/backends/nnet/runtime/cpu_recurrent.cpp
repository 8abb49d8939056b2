// Recurrent layers: all steps of one direction, in the order of the operation's documentation.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "checks.h"
#include "float_functions.h"
#include "pairs.h"

namespace ceras {
namespace {

constexpr int64_t PANEL = 32;  // outputs of the float kernel that are computed in parallel
constexpr int64_t STATE_BOUND = 1 << 15;  // magnitude of the integers of the state
constexpr int64_t MAX_EXPONENT = 60;
constexpr int32_t DYNAMIC = INT32_MIN;  // replaces the exponent of a state with dynamic scales
constexpr size_t WORDS_OF_FUNCTION = 3;

size_t functions_of(uint32_t cell) { return cell == CELL_RNN ? 1 : cell == CELL_LSTM ? 3 : 2; }

int64_t gates_of(uint32_t cell) { return cell == CELL_RNN ? 1 : cell == CELL_LSTM ? 4 : 3; }

int64_t panels_of(int64_t rows) { return (rows + PANEL - 1) / PANEL; }

bool is_integer(const Layer& layer) { return layer.weights().quantized(); }

// The words after the functions: the exponent of the state, then of each row of weights; or DYNAMIC,
// the zero point of the weights, and the scale of each row.
uint32_t word_of(const Layer& layer, size_t index) {
  return layer.attributes[1 + WORDS_OF_FUNCTION * functions_of(layer.attributes[0]) + index];
}

int exponent_of(const Layer& layer, size_t index) {
  return static_cast<int32_t>(word_of(layer, index));
}

bool is_dynamic(const Layer& layer) { return is_integer(layer) && exponent_of(layer, 0) == DYNAMIC; }

// Apply the function `index` of the layer in place.
void apply_own(const Layer& layer, size_t index, float* values, int64_t count) {
  const uint32_t* words = layer.attributes.data() + 1 + WORDS_OF_FUNCTION * index;
  const float parameters[] = {as_float(words[1]), as_float(words[2])};
  apply_all(static_cast<Function>(words[0]), parameters, values, count);
}

// The units of a state, rounded up to pairs.
int64_t pairs_of(int64_t hidden) { return (hidden + PAIR - 1) / PAIR; }

// The number of integer rows that are computed in parallel.
int64_t whole_lanes(int64_t rows) { return (rows + LANES - 1) / LANES * LANES; }

// Panels [hidden][PANEL] of floats, or blocks [pairs][LANES][PAIR] of 16 bits and then the scale of
// each row, padded with zeros.
int64_t packed_bytes(const Layer& layer) {
  const int64_t width = layer.weights().dims[0], hidden = layer.weights().dims[1];
  if (!is_integer(layer)) return 4 * panels_of(width) * PANEL * hidden;
  return 2 * whole_lanes(width) * PAIR * pairs_of(hidden) + 4 * width;
}

void pack(const Layer& layer, uint8_t* to) {
  const int64_t width = layer.weights().dims[0], hidden = layer.weights().dims[1];
  if (!is_integer(layer)) {
    const float* weights = layer.weights().floats();
    float* floats = reinterpret_cast<float*>(to);
    for (int64_t j = 0; j < width; ++j)
      for (int64_t i = 0; i < hidden; ++i)
        floats[(j / PANEL * hidden + i) * PANEL + j % PANEL] = weights[j * hidden + i];
    return;
  }
  const int8_t* weights = reinterpret_cast<const int8_t*>(layer.weights().data);
  int16_t* wide = reinterpret_cast<int16_t*>(to);
  const bool dynamic = is_dynamic(layer);
  const int64_t pairs = pairs_of(hidden), state = exponent_of(layer, 0);
  const int zero_point = dynamic ? exponent_of(layer, 1) : 0;
  float* scales = reinterpret_cast<float*>(wide + whole_lanes(width) * PAIR * pairs);
  for (int64_t j = 0; j < width; ++j) {
    const size_t row = static_cast<size_t>(j) + 1;
    scales[j] = dynamic ? as_float(word_of(layer, row + 1))
                        : std::ldexp(1.0f, exponent_of(layer, row) + static_cast<int>(state));
    for (int64_t i = 0; i < hidden; ++i)
      wide[((j / LANES * pairs + i / PAIR) * LANES + j % LANES) * PAIR + i % PAIR] =
          static_cast<int16_t>(weights[j * hidden + i] - zero_point);
  }
}

// The nearest integer, ties to even, within integer bounds; NaN counts as 0.
float rounded(float v, float low, float high) {
  return std::nearbyint(std::min(std::max(v == v ? v : 0.0f, low), high));
}

int64_t scratch_of(const Layer& layer) {
  const int64_t width = layer.weights().dims[0], hidden = layer.weights().dims[1];
  return 4 * (width + hidden + whole_lanes(width)) + 2 * PAIR * pairs_of(hidden);
}

// The contribution of the state to the gates: `p` of the operation.
class Product {
 public:
  Product(const Layer& layer, void* memory) : layer_(layer) {
    width_ = layer.weights().dims[0];
    hidden_ = layer.weights().dims[1];
    if (!is_integer(layer)) return;
    sums_ = static_cast<int32_t*>(memory);
    q_ = reinterpret_cast<int16_t*>(sums_ + whole_lanes(width_));
    std::fill(q_ + hidden_, q_ + PAIR * pairs_of(hidden_), int16_t{0});
    if (!is_dynamic(layer)) up_ = std::ldexp(1.0f, -exponent_of(layer, 0));
  }

  // Called before the sequences of a step: compute scale and bounds of all states.
  void begin(const float* h, int64_t batch, int64_t pitch) {
    if (!is_dynamic(layer_)) return;
    float low = 0, high = 0;
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < hidden_; ++i) {
        const float v = h[b * pitch + i];
        low = v < low ? v : low;
        high = v > high ? v : high;
      }
    const float span = high - low;
    scale_ = span == 0 ? 1.0f : span / 255;
    low_ = -rounded((0 - low) / scale_, 0, 255);
    high_ = low_ + 255;
  }

  // For the rows of weights from `first` to `end`.
  void run(const float* h, int64_t first, int64_t end, float* p) const {
    if (is_integer(layer_))
      of_integers(h, first, end, p);
    else
      of_floats(h, first, end, p);
    if (layer_.operands.size() == 4u + (layer_.attributes[0] == CELL_LSTM)) {
      const float* bias = layer_.operands.back()->floats();
      for (int64_t j = first; j < end; ++j) p[j] += bias[j];
    }
  }

 private:
  // Add in the order of `h`, starting with 0. Lanes are outputs, so no sum is reordered.
  void of_floats(const float* h, int64_t first, int64_t end, float* p) const {
    const float* panels = reinterpret_cast<const float*>(layer_.ordered.data());
    for (int64_t start = first / PANEL * PANEL; start < end; start += PANEL) {
      const float* panel = panels + start * hidden_;
      float sums[PANEL] = {};
      for (int64_t i = 0; i < hidden_; ++i)
        for (int64_t j = 0; j < PANEL; ++j) sums[j] += h[i] * panel[i * PANEL + j];
      for (int64_t j = std::max(start, first); j < std::min(start + PANEL, end); ++j)
        p[j] = sums[j - start];
    }
  }

  void of_integers(const float* h, int64_t first, int64_t end, float* p) const {
    const bool dynamic = is_dynamic(layer_);
    for (int64_t i = 0; i < hidden_; ++i)
      q_[i] = static_cast<int16_t>(rounded(dynamic ? h[i] / scale_ : h[i] * up_, low_, high_));
    const int pairs = static_cast<int>(pairs_of(hidden_));
    const int16_t* wide = reinterpret_cast<const int16_t*>(layer_.ordered.data());
    const float* scales =
        reinterpret_cast<const float*>(wide + whole_lanes(width_) * PAIR * pairs);
    const int64_t start = first / LANES * LANES;
    std::fill(sums_ + start, sums_ + whole_lanes(end), 0);
    for (int64_t j = start; j < end; j += LANES)
      multiply_pairs<1>(q_, 0, wide + j * PAIR * pairs, pairs, sums_ + j);
    for (int64_t j = first; j < end; ++j)
      p[j] = static_cast<float>(sums_[j]) * (scale_ * scales[j]);
  }

  const Layer& layer_;
  int64_t width_, hidden_;
  int32_t* sums_ = nullptr;
  int16_t* q_ = nullptr;
  float up_ = 0, scale_ = 1, low_ = -32768.0f, high_ = 32767.0f;
};

// The operands and results of a step of a sequence.
struct Step {
  const float *x, *h;
  float *y, *c;     // the next state, and the cell state of an LSTM
  float *p, *reset;  // working memory of the gates, and of one state
  int64_t n;
};

void add(const float* from, float* to, int64_t count) {
  for (int64_t j = 0; j < count; ++j) to[j] = from[j] + to[j];
}

void step_rnn(const Layer& layer, const Product& product, const Step& s) {
  product.run(s.h, 0, s.n, s.p);
  add(s.x, s.p, s.n);
  apply_own(layer, 0, s.p, s.n);
  std::copy(s.p, s.p + s.n, s.y);
}

void step_lstm(const Layer& layer, const Product& product, const Step& s) {
  const int64_t n = s.n;
  float *p = s.p, *c = s.c, *y = s.y;
  product.run(s.h, 0, 4 * n, p);
  add(s.x, p, 4 * n);
  apply_own(layer, 0, p, 3 * n);
  apply_own(layer, 1, p + 3 * n, n);
  for (int64_t j = 0; j < n; ++j) c[j] = p[2 * n + j] * c[j] + p[j] * p[3 * n + j];
  std::copy(c, c + n, y);
  apply_own(layer, 2, y, n);
  for (int64_t j = 0; j < n; ++j) y[j] = p[n + j] * y[j];
}

void step_gru(const Layer& layer, const Product& product, const Step& s) {
  const int64_t n = s.n;
  float *p = s.p, *last = p + 2 * n;
  const bool reset_first = layer.attributes[0] == CELL_GRU_RESET_FIRST;
  product.run(s.h, 0, (reset_first ? 2 : 3) * n, p);
  add(s.x, p, 2 * n);
  apply_own(layer, 0, p, 2 * n);
  if (reset_first) {
    for (int64_t j = 0; j < n; ++j) s.reset[j] = p[n + j] * s.h[j];
    product.run(s.reset, 2 * n, 3 * n, p);
  } else {
    for (int64_t j = 0; j < n; ++j) last[j] = p[n + j] * last[j];
  }
  add(s.x + 2 * n, last, n);
  apply_own(layer, 1, last, n);
  for (int64_t j = 0; j < n; ++j) s.y[j] = (1.0f - p[j]) * last[j] + p[j] * s.h[j];
}

void recurrence(const Layer& layer, Scratch& scratch) {
  const Tensor &in = layer.input(), &state = *layer.operands[2], &out = layer.output();
  const uint32_t cell = layer.attributes[0];
  const int64_t steps = in.dims[0], batch = in.dims[1], n = layer.weights().dims[1];
  Step s{};
  s.n = n;
  s.p = reinterpret_cast<float*>(scratch.base);
  s.reset = s.p + layer.weights().dims[0];
  Product product(layer, s.reset + n);
  float* cells = out.float_target() + steps * batch * out.pitch;
  if (cell == CELL_LSTM)
    for (int64_t b = 0; b < batch; ++b) {
      const float* from = layer.operands[3]->floats() + b * layer.operands[3]->pitch;
      std::copy(from, from + n, cells + b * out.pitch);
    }
  const auto step = cell == CELL_LSTM ? step_lstm : cell == CELL_RNN ? step_rnn : step_gru;
  for (int64_t row = 0; row < steps * batch; ++row) {
    const int64_t b = row % batch;
    s.x = in.floats() + row * in.pitch;
    s.y = out.float_target() + row * out.pitch;
    s.h = row < batch ? state.floats() + b * state.pitch : s.y - batch * out.pitch;
    s.c = cells + b * out.pitch;
    if (b == 0) product.begin(s.h, batch, row < batch ? state.pitch : out.pitch);
    step(layer, product, s);
  }
}

const char* check_words(const Layer& layer) {
  const auto& words = layer.attributes;
  if (words.empty() || words[0] > CELL_LSTM) return "unknown attribute";
  const size_t functions = functions_of(words[0]);
  if (layer.operands.size() < 2) return "the weights are missing";
  const size_t rows = static_cast<size_t>(layer.weights().dims[0]);
  const size_t least = 1 + WORDS_OF_FUNCTION * functions;
  if (is_integer(layer) && words.size() <= least) return "wrong number of attributes";
  const bool dynamic = is_dynamic(layer);
  const size_t exponents = is_integer(layer) && !dynamic ? 1 + rows : 0;
  if (words.size() != least + (dynamic ? 2 + rows : exponents)) return "wrong number of attributes";
  for (size_t i = 0; i < functions; ++i) {
    const uint32_t* own = words.data() + 1 + WORDS_OF_FUNCTION * i;
    if (own[0] < 1 || own[0] > LAST_FUNCTION) return "unknown function";
    if (std::isnan(as_float(own[1])) || std::isnan(as_float(own[2])))
      return "a parameter is not a number";
  }
  for (size_t i = 0; i < exponents; ++i)
    if (std::abs(int64_t{exponent_of(layer, i)}) > MAX_EXPONENT)
      return "an exponent is out of range";
  if (!dynamic) return nullptr;
  if (words[0] != CELL_LSTM) return "only an lstm has dynamic scales";
  if (exponent_of(layer, 1) < -128 || exponent_of(layer, 1) > 127)
    return "the zero point is out of range";
  for (size_t i = 0; i < rows; ++i) {
    const float scale = as_float(word_of(layer, i + 2));
    if (!(scale >= 0) || std::isinf(scale)) return "a scale is negative or not finite";
  }
  return nullptr;
}

// All shapes follow from those of weights and input.
const char* check_shapes(const Layer& layer) {
  const Tensor &in = layer.input(), &weights = layer.weights(), &out = layer.output();
  const bool lstm = layer.attributes[0] == CELL_LSTM;
  const int64_t width = weights.dims[0], hidden = weights.dims[1];
  if (hidden > MAX_STATE_WIDTH || width != gates_of(layer.attributes[0]) * hidden)
    return "the weights have the wrong shape";
  if (in.rank != 3 || in.dims[2] != width) return "the input has the wrong shape";
  for (size_t i = 2; i < 3u + lstm; ++i) {
    const Tensor& state = *layer.operands[i];
    if (state.rank != 2 || state.dims[0] != in.dims[1] || state.dims[1] != hidden)
      return "the state has the wrong shape";
  }
  const Tensor& last = *layer.operands.back();
  if (layer.operands.size() == 4u + lstm && (last.rank != 1 || last.dims[0] != width))
    return "the bias has the wrong shape";
  if (out.rank != 3 || out.dims[0] != in.dims[0] + lstm || out.dims[1] != in.dims[1] ||
      out.dims[2] != hidden)
    return "the result has the wrong shape";
  return nullptr;
}

const char* check(const Layer& layer) {
  if (layer.operands.size() < 2 || layer.weights().rank != 2) return "weights of rank 2 are expected";
  if (const char* reason = check_words(layer)) return reason;
  const size_t least = 3u + (layer.attributes[0] == CELL_LSTM);
  if (layer.operands.size() < least || layer.operands.size() > least + 1)
    return "wrong number of operands";
  const Tensor& weights = layer.weights();
  for (const Tensor* tensor : layer.operands)
    if (tensor != &weights && !is_float(*tensor)) return "float tensors are expected";
  if (!is_float(layer.output())) return "float tensors are expected";
  if (!weights.constant()) return "constant weights are expected";
  if (const char* reason = check_shapes(layer)) return reason;
  if (weights.elements > MAX_STATE_WEIGHTS) return "there are too many weights";
  if (!is_integer(layer)) return nullptr;
  if (weights.storage != Storage::I8 || weights.zero_point != 0 || weights.scale != 1.0f)
    return "weights of 8 bits, of scale 1 without zero point, are expected";
  if (is_dynamic(layer)) return nullptr;  // No sum of 8-bit integers and MAX_STATE_WIDTH overflows.
  for (int64_t row = 0; row < weights.dims[0]; ++row)
    if (row_magnitude(weights, row, weights.dims[1]) * STATE_BOUND > INT32_MAX)
      return "the accumulator may overflow 32 bits";
  return nullptr;
}

double products_of(const Layer& layer) {
  return static_cast<double>(layer.input().elements) * static_cast<double>(layer.output().row);
}

const Operation OPERATIONS[] = {
    {22, ANY, ANY, PLAIN, check, always<recurrence>, never, accept_as_it_is, operand_fits,
     scratch_of, Circuit::None, products_of, packed_bytes, pack},
};

}  // namespace

const Family RECURRENT(OPERATIONS);

}  // namespace ceras
