// Convolution and matrix product on the CPU.
//
// The patches of a tile of output pixels are gathered a single time, with zeros for padding, and
// multiplied by the weights of all output channels. Both are widened to 16 bits, because processors
// have multiply-add instructions for them. A matrix product is a convolution with rows as patches.
#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "checks.h"
#include "float_functions.h"
#include "integers.h"
#include "zero_blocks.h"

namespace ceras {
namespace {

constexpr int64_t PIXELS = 8;        // output pixels that share a load of the weights
constexpr int64_t FLOAT_PIXELS = 16;  // lanes of the float kernel
constexpr int64_t LANES = 16;         // patches are padded with zeros to whole vectors

int64_t whole_lanes(int64_t length) { return (length + LANES - 1) / LANES * LANES; }

struct Shape {
  int64_t height, width, channels;  // of the input; a product is a single row of pixels
  int64_t rows, columns;            // of the result
  int64_t pixels, outputs;
  int64_t group_channels, group_outputs, length;

  explicit Shape(const Layer& layer) {
    const Tensor &in = layer.input(), &weights = layer.weights(), &out = layer.output();
    const bool conv = in.rank == 4;
    height = conv ? in.dims[1] : 1;
    width = conv ? in.dims[2] : 1;
    channels = conv ? in.dims[3] : in.dims[1];
    rows = conv ? out.dims[1] : 1;
    columns = conv ? out.dims[2] : 1;
    outputs = weights.dims[0];
    pixels = out.elements / outputs;
    group_channels = channels / layer.groups;
    group_outputs = outputs / layer.groups;
    length = weights.elements / outputs;
  }
};

// Gather the window of an output pixel: `length` elements, `step` apart in `patch`.
template <class Stored, class Lane>
void gather(const Layer& layer, const Shape& s, int64_t pixel, int64_t first_channel, Lane* patch,
            int64_t step) {
  const Window& w = layer.window;
  const Stored* data = reinterpret_cast<const Stored*>(layer.input().data);
  const Lane zero_point = static_cast<Lane>(layer.input().zero_point);
  const int64_t image = pixel / (s.rows * s.columns);
  const int64_t top = pixel / s.columns % s.rows * w.strides[0] - w.padding[0];
  const int64_t left = pixel % s.columns * w.strides[1] - w.padding[1];
  for (int64_t i = 0; i < w.kernel[0]; ++i) {
    const int64_t y = top + i * w.dilations[0];
    for (int64_t j = 0; j < w.kernel[1]; ++j, patch += s.group_channels * step) {
      const int64_t x = left + j * w.dilations[1];
      if (y < 0 || y >= s.height || x < 0 || x >= s.width) {
        for (int64_t c = 0; c < s.group_channels; ++c) patch[c * step] = 0;
        continue;
      }
      const Stored* at = data + ((image * s.height + y) * s.width + x) * layer.input().pitch + first_channel;
      if (step == 1)
        for (int64_t c = 0; c < s.group_channels; ++c)
          patch[c] = static_cast<Lane>(static_cast<Lane>(at[c]) - zero_point);
      else
        for (int64_t c = 0; c < s.group_channels; ++c)
          patch[c * step] = static_cast<Lane>(static_cast<Lane>(at[c]) - zero_point);
    }
  }
}

void gather_integers(const Layer& layer, const Shape& s, int64_t pixel, int64_t first_channel,
                     int16_t* patch) {
  switch (layer.input().storage) {
    case Storage::I8:
      return gather<int8_t>(layer, s, pixel, first_channel, patch, 1);
    case Storage::U8:
      return gather<uint8_t>(layer, s, pixel, first_channel, patch, 1);
    default:
      return gather<int16_t>(layer, s, pixel, first_channel, patch, 1);
  }
}

// Subtract the zero point from 8-bit elements, and store them `step` apart.
void widen_bytes(const Tensor& tensor, int64_t start, int64_t count, int16_t* out,
                   int64_t step) {
  const int zero_point = static_cast<int>(tensor.zero_point);
  if (tensor.storage == Storage::I8) {
    const int8_t* data = reinterpret_cast<const int8_t*>(tensor.data) + start;
    for (int64_t i = 0; i < count; ++i) out[i * step] = static_cast<int16_t>(data[i] - zero_point);
  } else {
    const uint8_t* data = tensor.data + start;
    for (int64_t i = 0; i < count; ++i) out[i * step] = static_cast<int16_t>(data[i] - zero_point);
  }
}

// Widen a row of weights. With `live`, only copy the blocks with nonzero weights.
void widen_row(const Tensor& weights, int64_t start, int64_t length, const uint8_t* live,
               int16_t* out) {
  if (live == nullptr) return widen_bytes(weights, start, length, out, 1);
  for (int64_t at = 0; at < length; at += ZERO_BLOCK, ++live) {
    if (*live == 0) continue;
    const int64_t count = std::min(ZERO_BLOCK, length - at);
    widen_bytes(weights, start + at, count, out, 1);
    std::fill(out + count, out + ZERO_BLOCK, int16_t{0});
    out += ZERO_BLOCK;
  }
}

// Multiply four pixels by two rows of weights: eight sums for six loaded vectors.
void dot_4x2(const int16_t* a, const int16_t* w, int64_t length, int32_t sums[2][4]) {
  const int16_t *a0 = a, *a1 = a + length, *a2 = a + 2 * length, *a3 = a + 3 * length;
  const int16_t* w1 = w + length;
  int32_t s00 = 0, s01 = 0, s02 = 0, s03 = 0, s10 = 0, s11 = 0, s12 = 0, s13 = 0;
  for (int64_t k = 0; k < length; ++k) {
    s00 += int32_t{a0[k]} * w[k];
    s01 += int32_t{a1[k]} * w[k];
    s02 += int32_t{a2[k]} * w[k];
    s03 += int32_t{a3[k]} * w[k];
    s10 += int32_t{a0[k]} * w1[k];
    s11 += int32_t{a1[k]} * w1[k];
    s12 += int32_t{a2[k]} * w1[k];
    s13 += int32_t{a3[k]} * w1[k];
  }
  const int32_t all[2][4] = {{s00, s01, s02, s03}, {s10, s11, s12, s13}};
  std::memcpy(sums, all, sizeof all);
}

// Look up `count` integers of the channels from `channel`, and write to element `to` of the result.
void look_up(const Layer& layer, int64_t channel, int64_t count, const int64_t* stored,
             int64_t to) {
  const int64_t size = bytes_of(layer.output().storage);
  const bool shared = layer.tables.size() == 1;
  for (int64_t i = 0; i < count; ++i) {
    const uint8_t* table = layer.tables[shared ? 0 : static_cast<size_t>(channel + i)];
    std::memcpy(layer.output().target + (to + i) * size, table + stored[i] * size,
                static_cast<size_t>(size));
  }
}

// Apply the output stage to `count` accumulators of a pixel, from `channel` on.
void finish(const Layer& layer, const int32_t* sums, int64_t pixel, int64_t channel,
            int64_t count) {
  const int64_t start = pixel * layer.output().pitch + channel;
  int64_t acc[CHUNK], extra[CHUNK];
  for (int64_t at = 0; at < count; at += CHUNK) {
    const int64_t part = std::min(CHUNK, count - at);
    for (int64_t i = 0; i < part; ++i) acc[i] = sums[at + i];
    if (layer.bias != nullptr) {
      read_integers(*layer.bias, channel + at, part, extra);
      for (int64_t i = 0; i < part; ++i) acc[i] += extra[i];
    }
    Requant requant = layer.requant;
    int64_t factor = int64_t{1} << layer.residual_shift;
    if (layer.multipliers != nullptr) {
      // The products with 31-bit multipliers are requantized with a multiplier of one.
      read_integers(*layer.multipliers, channel + at, part, extra);
      for (int64_t i = 0; i < part; ++i) acc[i] *= extra[i];
      factor *= requant.multiplier;
      requant.multiplier = 1;
    }
    if (layer.residual != nullptr) {
      read_centred(*layer.residual, pixel * layer.residual->pitch + channel + at, part, extra);
      for (int64_t i = 0; i < part; ++i) acc[i] += extra[i] * factor;
    }
    requantize(acc, part, requant);
    if (layer.table != nullptr)
      look_up(layer, channel + at, part, acc, start + at);
    else
      write_integers(layer.output(), start + at, part, acc);
  }
}

struct IntegerScratch {
  int16_t *patches, *weights, *live;
  int32_t* sums;
};

IntegerScratch divide(Scratch& scratch, int64_t length) {
  IntegerScratch parts;
  parts.patches = reinterpret_cast<int16_t*>(scratch.base);
  parts.weights = parts.patches + PIXELS * length;
  parts.live = parts.weights + 2 * length;
  parts.sums = reinterpret_cast<int32_t*>(parts.live + PIXELS * length);
  return parts;
}

bool is_depthwise(const Layer& layer) {
  return layer.groups > 1 && layer.weights().dims[3] == 1 &&
         layer.groups == layer.weights().dims[0];
}

int64_t scratch_of(const Layer& layer) {
  const Shape s(layer);
  if (!layer.quantized()) return FLOAT_PIXELS * s.length * 4;
  if (is_depthwise(layer)) return s.channels * (s.length * 2 + 8);
  return (2 * PIXELS + 2) * whole_lanes(s.length) * 2 + PIXELS * s.group_outputs * 4;
}

void conv2d_integer(const Layer& layer, Scratch& scratch) {
  const Shape s(layer);
  const int64_t length = whole_lanes(s.length);
  const int64_t blocks = blocks_of(s.length);
  const IntegerScratch parts = divide(scratch, length);
  std::memset(parts.patches, 0, static_cast<size_t>((2 * PIXELS + 2) * length * 2));
  for (int64_t group = 0; group < layer.groups; ++group)
    for (int64_t pixel = 0; pixel < s.pixels; pixel += PIXELS) {
      const int64_t pixels = std::min(PIXELS, s.pixels - pixel);
      for (int64_t p = 0; p < pixels; ++p)
        gather_integers(layer, s, pixel + p, group * s.group_channels, parts.patches + p * length);
      const int64_t first = group * s.group_outputs;
      const int16_t* patches = parts.patches;
      int64_t width = length;
      for (int64_t o = 0; o < s.group_outputs; o += 2) {
        const int64_t rows = std::min<int64_t>(2, s.group_outputs - o);
        const uint8_t* live =
            layer.live.empty() ? nullptr : layer.live.data() + o / ZERO_BLOCK * blocks;
        if (live != nullptr && o % ZERO_BLOCK == 0) {
          width = keep_live(live, blocks, parts.patches, length, pixels, parts.live);
          patches = parts.live;
        }
        for (int64_t r = 0; r < rows; ++r)
          widen_row(layer.weights(), (first + o + r) * s.length, s.length, live,
                    parts.weights + r * width);
        // Patches after the last pixel, and a second row after the last, are undefined and unused.
        for (int64_t p = 0; p < pixels; p += 4) {
          int32_t sums[2][4];
          dot_4x2(patches + p * width, parts.weights, width, sums);
          for (int64_t r = 0; r < rows; ++r)
            for (int64_t q = 0; q < std::min<int64_t>(4, pixels - p); ++q)
              parts.sums[(p + q) * s.group_outputs + o + r] = sums[r][q];
        }
      }
      for (int64_t p = 0; p < pixels; ++p)
        finish(layer, parts.sums + p * s.group_outputs, pixel + p, first, s.group_outputs);
    }
}

void conv2d_depthwise(const Layer& layer, Scratch& scratch) {
  const Shape s(layer);
  const Window& w = layer.window;
  int32_t* sums = reinterpret_cast<int32_t*>(scratch.base);
  int16_t* weights = reinterpret_cast<int16_t*>(sums + s.channels);  // [tap][channel]
  int16_t* lane = weights + s.length * s.channels;
  for (int64_t c = 0; c < s.channels; ++c)
    widen_bytes(layer.weights(), c * s.length, s.length, weights + c, s.channels);
  for (int64_t pixel = 0; pixel < s.pixels; ++pixel) {
    const int64_t image = pixel / (s.rows * s.columns);
    const int64_t top = pixel / s.columns % s.rows * w.strides[0] - w.padding[0];
    const int64_t left = pixel % s.columns * w.strides[1] - w.padding[1];
    std::fill(sums, sums + s.channels, 0);
    for (int64_t i = 0; i < w.kernel[0]; ++i)
      for (int64_t j = 0; j < w.kernel[1]; ++j) {
        const int64_t y = top + i * w.dilations[0], x = left + j * w.dilations[1];
        if (y < 0 || y >= s.height || x < 0 || x >= s.width) continue;
        const int64_t at = ((image * s.height + y) * s.width + x) * layer.input().pitch;
        const int16_t* tap = weights + (i * w.kernel[1] + j) * s.channels;
        if (layer.input().storage == Storage::I16)
          std::memcpy(lane, layer.input().data + 2 * at, static_cast<size_t>(2 * s.channels));
        else
          widen_bytes(layer.input(), at, s.channels, lane, 1);
        for (int64_t c = 0; c < s.channels; ++c) sums[c] += int32_t{lane[c]} * tap[c];
      }
    finish(layer, sums, pixel, 0, s.outputs);
  }
}

void conv2d_float(const Layer& layer, Scratch& scratch) {
  const Shape s(layer);
  float* patches = reinterpret_cast<float*>(scratch.base);  // [length][FLOAT_PIXELS]
  std::fill(patches, patches + FLOAT_PIXELS * s.length, 0.0f);
  float* target = layer.output().float_target();
  for (int64_t group = 0; group < layer.groups; ++group)
    for (int64_t pixel = 0; pixel < s.pixels; pixel += FLOAT_PIXELS) {
      const int64_t pixels = std::min(FLOAT_PIXELS, s.pixels - pixel);
      for (int64_t p = 0; p < pixels; ++p)
        gather<float>(layer, s, pixel + p, group * s.group_channels, patches + p, FLOAT_PIXELS);
      for (int64_t o = group * s.group_outputs; o < (group + 1) * s.group_outputs; ++o) {
        const float* row = layer.weights().floats() + o * s.length;
        float sums[FLOAT_PIXELS] = {};
        for (int64_t k = 0; k < s.length; ++k)
          for (int64_t p = 0; p < FLOAT_PIXELS; ++p)
            sums[p] += row[k] * patches[k * FLOAT_PIXELS + p];
        if (layer.bias != nullptr)
          for (int64_t p = 0; p < pixels; ++p) sums[p] += layer.bias->floats()[o];
        if (layer.residual != nullptr)
          for (int64_t p = 0; p < pixels; ++p)
            sums[p] += layer.residual->floats()[(pixel + p) * layer.residual->pitch + o];
        apply_all(layer.function, layer.parameters, sums, pixels);
        for (int64_t p = 0; p < pixels; ++p)
          target[(pixel + p) * layer.output().pitch + o] = sums[p];
      }
    }
}

// A multiplier per output channel. The largest is the multiplier of the requantization.
const char* check_multipliers(const Layer& layer, int64_t channels) {
  const Tensor& all = *layer.multipliers;
  if (!layer.quantized()) return "a float layer has no multipliers";
  if (!all.constant() || all.storage != Storage::I32 || all.rank != 1 || all.dims[0] != channels)
    return "the multipliers must be one constant of 32 bits per channel";
  int64_t greatest = 0;
  for (int64_t i = 0; i < channels; ++i) {
    int64_t multiplier = 0;
    read_integers(all, i, 1, &multiplier);
    if (multiplier < 1) return "the multiplier is out of range";
    greatest = std::max(greatest, multiplier);
  }
  return greatest == layer.requant.multiplier ? nullptr
                                              : "the multiplier is not the largest of the channels";
}

// Check bias, residual, multipliers and types. The shapes must be known.
const char* check_epilogue(const Layer& layer) {
  const Tensor &in = layer.input(), &weights = layer.weights(), &out = layer.output();
  const int64_t channels = weights.dims[0];
  if (weights.has_gaps()) return "weights have no gaps between rows";
  if (layer.bias != nullptr && (layer.bias->rank != 1 || layer.bias->dims[0] != channels))
    return "the bias has the wrong shape";
  if (layer.residual != nullptr && !same_shape(*layer.residual, out))
    return "the residual has the wrong shape";
  if (const char* reason = check_rescaling(layer)) return reason;
  if (layer.multipliers != nullptr)
    if (const char* reason = check_multipliers(layer, channels)) return reason;
  if (!layer.quantized()) return nullptr;
  if (layer.table != nullptr && out.storage != Storage::I8 && out.storage != Storage::F32)
    return "a table of int8 or floats is expected";
  if (layer.tables.size() > 1 && static_cast<int64_t>(layer.tables.size()) != channels)
    return "a table per channel is expected";
  const bool wide_input = in.storage == Storage::I16 && in.zero_point == 0;
  if (!is_byte(weights) || !(is_byte(in) || wide_input))
    return "weights of 8 bits and an input of 8, or of 16 bits without zero point, are expected";
  if (layer.bias != nullptr && layer.bias->storage != Storage::I32)
    return "the bias must be stored in 32 bits";
  if (layer.residual != nullptr && !is_narrow(*layer.residual))
    return "the residual must be stored in 8 or 16 bits";
  return layer.residual_shift > 23 ? "the residual shift is above 23" : nullptr;
}

const char* check_conv2d(const Layer& layer) {
  const Tensor &in = layer.input(), &weights = layer.weights(), &out = layer.output();
  if (const char* reason = check_window(layer)) return reason;
  const int64_t g = layer.groups;
  if (g < 1 || in.dims[3] % g != 0 || weights.dims[0] % g != 0 ||
      weights.dims[3] * g != in.dims[3])
    return "the groups do not divide the channels";
  if (out.dims[3] != weights.dims[0]) return "the result has the wrong number of channels";
  return check_epilogue(layer);
}

const char* check_matmul(const Layer& layer) {
  const Tensor &in = layer.input(), &weights = layer.weights(), &out = layer.output();
  if (in.rank != 2 || weights.rank != 2 || out.rank != 2 || in.dims[1] != weights.dims[1] ||
      out.dims[0] != in.dims[0] || out.dims[1] != weights.dims[0])
    return "the shapes do not fit a matrix product";
  return check_epilogue(layer);
}

const char* prepare_conv2d(Layer& layer) {
  const Tensor& weights = layer.weights();
  if (weights.rank != 4) return "weights must have rank 4";
  if (weights.dims[1] > MAX_WINDOW || weights.dims[2] > MAX_WINDOW)
    return "the window is too large";
  std::copy(weights.dims + 1, weights.dims + 3, layer.window.kernel);
  layer.groups = layer.attributes[8];
  return prepare_window(layer, 0);
}

constexpr const char* OVERFLOWS = "the accumulator may overflow 32 bits";

const char* sum_fits(const Layer& layer) {
  const Tensor& weights = layer.weights();
  const int64_t channels = weights.dims[0], length = weights.elements / channels;
  const int64_t residual = layer.residual != nullptr ? magnitude(*layer.residual) : 0;
  int64_t greatest = 0;
  for (int64_t row = 0; row < channels; ++row) {
    int64_t bias = 0, own = layer.requant.multiplier;
    if (layer.bias != nullptr) {
      if (!layer.bias->constant()) return "the bias must be a constant";
      read_integers(*layer.bias, row, 1, &bias);
    }
    const int64_t sum = row_magnitude(weights, row, length) * magnitude(layer.input());
    // The residual in units of the accumulator of the channel, before the multiplication.
    if (layer.multipliers != nullptr) read_integers(*layer.multipliers, row, 1, &own);
    const int64_t moved = (residual * layer.requant.multiplier + own - 1) / own;
    if (moved > INT32_MAX >> layer.residual_shift) return OVERFLOWS;
    greatest = std::max(greatest, sum + std::abs(bias) + (moved << layer.residual_shift));
  }
  if (greatest > INT32_MAX) return OVERFLOWS;
  return fits_64(greatest, layer.requant.multiplier);
}

bool over_residual(const Layer& layer, size_t operand) {
  return layer.operands[operand] == layer.residual && operand + 1 == layer.operands.size() &&
         layer.residual->storage == layer.output().storage && in_place(layer, operand);
}

Run operator_of_linear(const Layer& layer) {
  if (!layer.quantized()) return conv2d_float;
  return is_depthwise(layer) ? conv2d_depthwise : conv2d_integer;
}

double products_of(const Layer& layer) {
  return work_of_elements(layer) *
         static_cast<double>(layer.weights().elements / layer.weights().dims[0]);
}

constexpr unsigned RULES = EPILOGUE | FUNCTION | REQUANT;

const Operation OPERATIONS[] = {
    {1, 2, 9, RULES, check_conv2d, operator_of_linear, over_residual, prepare_conv2d, sum_fits,
     scratch_of, Circuit::Array, products_of},
    {2, 2, 0, RULES, check_matmul, operator_of_linear, over_residual, accept_as_it_is, sum_fits,
     scratch_of, Circuit::Array, products_of},
};

}  // namespace

const Family LINEAR(OPERATIONS);

}  // namespace ceras
