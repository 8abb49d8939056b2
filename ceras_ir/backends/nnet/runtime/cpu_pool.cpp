// Pooling on the CPU, for runs of channels.
#include <algorithm>

#include "checks.h"
#include "float_functions.h"
#include "integers.h"

namespace ceras {
namespace {

// The part of a window inside the input: taps [begin, end) of each axis.
struct Inside {
  int64_t origin[2], begin[2], end[2];

  Inside(const Layer& layer, int64_t row, int64_t column) {
    const Window& w = layer.window;
    const int64_t position[2] = {row, column};
    for (int axis = 0; axis < 2; ++axis) {
      const int64_t d = w.dilations[axis], size = layer.input().dims[axis + 1];
      origin[axis] = position[axis] * w.strides[axis] - w.padding[axis];
      begin[axis] = origin[axis] < 0 ? (-origin[axis] + d - 1) / d : 0;
      end[axis] = std::min(w.kernel[axis], (size - origin[axis] + d - 1) / d);
      end[axis] = std::max(end[axis], begin[axis]);
    }
  }

  int64_t count() const { return (end[0] - begin[0]) * (end[1] - begin[1]); }
};

// Calls `window(inside, first output element)` for each output pixel and
// `Inside` taps in row-major order through `each_tap`.
template <class Body>
void each_window(const Layer& layer, Body body) {
  const Tensor& out = layer.output();
  int64_t at = 0;
  for (int64_t image = 0; image < out.dims[0]; ++image)
    for (int64_t row = 0; row < out.dims[1]; ++row)
      for (int64_t column = 0; column < out.dims[2]; ++column, at += out.pitch)
        body(Inside(layer, row, column), image, at);
}

// Calls `body(first element of the input under the tap)`.
template <class Body>
void each_tap(const Layer& layer, const Inside& inside, int64_t image, Body body) {
  const Tensor& in = layer.input();
  for (int64_t i = inside.begin[0]; i < inside.end[0]; ++i)
    for (int64_t j = inside.begin[1]; j < inside.end[1]; ++j) {
      const int64_t y = inside.origin[0] + i * layer.window.dilations[0];
      const int64_t x = inside.origin[1] + j * layer.window.dilations[1];
      body(((image * in.dims[1] + y) * in.dims[2] + x) * in.pitch);
    }
}

bool includes_padding(const Layer& layer) { return layer.attributes[11] != 0; }

// The requantization of a window with `count` elements inside: see Pool2dOp.
Requant average_requant(const Layer& layer, int64_t count) {
  Requant r = layer.requant;
  const int64_t taps = layer.window.kernel[0] * layer.window.kernel[1];
  if (count != taps) r.multiplier = (2 * r.multiplier * taps + count) / (2 * count);
  return r;
}

void pool2d_maximum(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  each_window(layer, [&](const Inside& inside, int64_t image, int64_t at) {
    for (int64_t c = 0; c < out.dims[3]; c += CHUNK) {
      const int64_t count = std::min(CHUNK, out.dims[3] - c);
      int64_t greatest[CHUNK], value[CHUNK];
      std::fill(greatest, greatest + count, low_of(in.storage));
      each_tap(layer, inside, image, [&](int64_t from) {
        read_integers(in, from + c, count, value);
        for (int64_t i = 0; i < count; ++i) greatest[i] = std::max(greatest[i], value[i]);
      });
      write_integers(out, at + c, count, greatest);
    }
  });
}

void pool2d_average(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const int64_t taps = layer.window.kernel[0] * layer.window.kernel[1];
  each_window(layer, [&](const Inside& inside, int64_t image, int64_t at) {
    // Without a tap inside, the sum is zero for any divisor.
    const int64_t inside_count = std::max<int64_t>(inside.count(), 1);
    const Requant requant = average_requant(layer, includes_padding(layer) ? taps : inside_count);
    for (int64_t c = 0; c < out.dims[3]; c += CHUNK) {
      const int64_t count = std::min(CHUNK, out.dims[3] - c);
      int64_t sum[CHUNK] = {}, value[CHUNK];
      each_tap(layer, inside, image, [&](int64_t from) {
        read_centred(in, from + c, count, value);
        for (int64_t i = 0; i < count; ++i) sum[i] += value[i];
      });
      requantize(sum, count, requant);
      write_integers(out, at + c, count, sum);
    }
  });
}

// The sums are nested, so that errors grow with height plus width instead of their product.
void pool2d_float_average(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  const int64_t taps = layer.window.kernel[0] * layer.window.kernel[1];
  each_window(layer, [&](const Inside& inside, int64_t image, int64_t at) {
    const float divisor = static_cast<float>(includes_padding(layer) ? taps : inside.count());
    for (int64_t c = 0; c < out.dims[3]; c += CHUNK) {
      const int64_t count = std::min(CHUNK, out.dims[3] - c);
      float sum[CHUNK] = {};
      Inside row = inside;
      for (int64_t y = inside.begin[0]; y < inside.end[0]; ++y) {
        row.begin[0] = y;
        row.end[0] = y + 1;
        float of_row[CHUNK] = {};
        each_tap(layer, row, image, [&](int64_t from) {
          const float* data = in.floats() + from + c;
          for (int64_t i = 0; i < count; ++i) of_row[i] += data[i];
        });
        for (int64_t i = 0; i < count; ++i) sum[i] += of_row[i];
      }
      float* target = out.float_target() + at + c;
      for (int64_t i = 0; i < count; ++i) target[i] = sum[i] / divisor;
    }
  });
}

void pool2d_float_maximum(const Layer& layer, Scratch&) {
  const Tensor &in = layer.input(), &out = layer.output();
  each_window(layer, [&](const Inside& inside, int64_t image, int64_t at) {
    float* target = out.float_target() + at;
    const int64_t channels = out.dims[3];
    bool first = true;
    each_tap(layer, inside, image, [&](int64_t from) {
      const float* data = in.floats() + from;
      for (int64_t c = 0; c < channels; ++c)
        target[c] = first ? data[c] : maximum(target[c], data[c]);
      first = false;
    });
    if (first) std::fill(target, target + channels, -std::numeric_limits<float>::infinity());
  });
}

const char* prepare(Layer& layer) {
  std::copy_n(layer.attributes.begin() + 1, 2, layer.window.kernel);
  return prepare_window(layer, 3);
}

const char* check(const Layer& layer) {
  const Tensor &in = layer.input(), &out = layer.output();
  const Window& w = layer.window;
  if (const char* reason = check_window(layer)) return reason;
  if (in.dims[3] != out.dims[3]) return "the result has the wrong number of channels";
  for (int i = 0; i < 4; ++i)
    if (w.padding[i] >= (w.kernel[i % 2] - 1) * w.dilations[i % 2] + 1)
      return "a window is entirely in the padding";
  if (layer.attributes[0] > POOL_AVERAGE || layer.attributes[11] > 1) return "unknown attribute";
  if (layer.attributes[0] == POOL_AVERAGE) return check_rescaling(layer);
  if (layer.has_requant) return "maximum pooling has no requantization";
  return same_type(in, out) ? nullptr : "maximum pooling must keep the type of the input";
}

const char* sum_fits(const Layer& layer) {
  const int64_t taps = layer.window.kernel[0] * layer.window.kernel[1];
  const int64_t own = layer.requant.multiplier;
  const auto& padding = layer.window.padding;
  const bool partial = !includes_padding(layer) &&
                       std::any_of(padding, padding + 4, [](int64_t p) { return p != 0; });
  // The multiplier of a window with a single element is `taps` times that of a full window.
  if (partial && own > INT32_MAX / taps) return "the multiplier of one element exceeds 31 bits";
  return fits_64(taps * magnitude(layer.input()), partial ? own * taps : own);
}

Run operator_of_pool(const Layer& layer) {
  const bool average = layer.attributes[0] == POOL_AVERAGE;
  if (!layer.output().quantized()) return average ? pool2d_float_average : pool2d_float_maximum;
  return average ? pool2d_average : pool2d_maximum;
}

double taps_of(const Layer& layer) {
  return work_of_elements(layer) * static_cast<double>(layer.window.kernel[0]) *
         static_cast<double>(layer.window.kernel[1]);
}

const Operation OPERATIONS[] = {
    {3, 1, 12, REQUANT, check, operator_of_pool, never, prepare, sum_fits, no_scratch,
     Circuit::Pool, taps_of},
};

}  // namespace

const Family POOLING(OPERATIONS);

}  // namespace ceras
