// Plan copies of boxes of elements as layers of pixels.
//
// A result has a single pitch. The input can have two: from row to row and from pixel to pixel; a
// pitch is zero if rows or pixels are repeated. Boxes with more dimensions need several launches.
#include "geometry.h"

#include <algorithm>

namespace ceras {
namespace {

constexpr int64_t MAX_LAUNCHES = 64;
constexpr int64_t SHORT_BURST = 2;  // words that take no longer than a shorter burst

// A dimension of a box, with the bytes from index to index.
struct Axis {
  int64_t count, from, to;
};

// The dimensions of a box outside a run of bytes that is contiguous in input and result.
struct Box {
  std::vector<Axis> axes;
  int64_t run;
};

bool nests(const Axis& outer, const Axis& inner) { return outer.to == inner.to * inner.count; }

Box box_of(const CoreSize& size, const FpgaMove& move) {
  Box box{{}, move.unit};
  std::vector<Axis>& axes = box.axes;
  for (int d = 0; d < FPGA_BOX; ++d) {
    if (move.dims[d] == 1) continue;
    const Axis axis{move.dims[d], move.from[d], move.to[d]};
    if (!axes.empty() && nests(axes.back(), axis) && axes.back().from == axis.from * axis.count)
      axes.back() = {axes.back().count * axis.count, axis.from, axis.to};
    else
      axes.push_back(axis);
  }
  if (!axes.empty() && axes.back().from == box.run && axes.back().to == box.run) {
    box.run *= axes.back().count;
    axes.pop_back();
  }
  // Long runs are also pixels if they are contiguous in the result.
  const bool dense = axes.empty() || (axes.size() == 1 && axes[0].to == box.run);
  if (dense && box.run > 8 * size.lanes) {
    const int64_t length = even_length(size, box.run);
    axes.push_back({box.run / length, length, length});
    box.run = length;
  }
  if (axes.empty()) axes.push_back({1, box.run, box.run});
  return box;
}

// Pixels of `run` bytes, `pixels.from` bytes apart in memory. Gaps of short runs are read, too.
Line line_of(const CoreSize& size, const Axis& pixels, int64_t run) {
  if (pixels.from == run || pixels.from <= SHORT_BURST * size.bus_bytes)
    return {1, (pixels.count - 1) * pixels.from + run, pixels.from, 0};
  return {pixels.count, run, pixels.from, 0};
}

int64_t step_of(const Line& line, const Axis& pixels) {
  return line.runs == 1 ? pixels.from : line.run_bytes;
}

// A line of the input for each row of the result.
bool lay_rows(const CoreSize& size, const Axis& rows, const Axis& pixels, Geometry& g) {
  g.line = line_of(size, pixels, g.channels);
  g.line.step = rows.from;
  g.pixel_step = step_of(g.line, pixels);
  g.images = g.stride_y = 1;
  g.height = g.rows = rows.count;
  return g.line.bytes() <= size.line_bytes;
}

// Several rows of the result from a single line: all rows if `rows.from` is 0, otherwise the number
// of rows that fit a line.
bool lay_rows_in_lines(const CoreSize& size, const Axis& images, const Axis& rows,
                       const Axis& pixels, Geometry& g) {
  g.stride_y = 0;
  g.height = 1;
  g.row_step = rows.from;
  for (int64_t part = 1; part <= rows.count; ++part) {
    if (rows.count % part != 0 || (rows.from == 0 && part > 1)) continue;
    const int64_t own = rows.count / part;
    g.line = line_of(size, pixels, (own - 1) * rows.from + g.channels);
    if (2 * g.line.bytes() > size.line_bytes && part < rows.count && rows.from != 0) continue;
    g.line.step = rows.from == 0 ? images.from : own * rows.from;
    g.pixel_step = step_of(g.line, pixels);
    g.images = rows.from == 0 ? images.count : part;
    g.rows = own;
    return g.line.bytes() <= size.line_bytes;
  }
  return false;
}

// Contiguous pixels, in lines of any length.
bool lay_pixels(const CoreSize& size, const Axis& pixels, Geometry& g) {
  g.most_pixels = CORE_PIXELS / g.repeats;
  const Line all = line_of(size, pixels, g.channels);
  const int64_t each = step_of(all, pixels);
  if (!as_image(size, pixels.count, each, g)) return false;
  g.line = line_of(size, {g.width, pixels.from, 0}, g.channels);
  g.line.step = g.width * pixels.from;
  g.pixel_step = each;
  g.columns *= g.repeats;
  g.most_pixels = CORE_PIXELS;
  return true;
}

// The number of inner axes of a launch; 0 if the layer is refused.
size_t lay_axes(const CoreSize& size, const Box& box, Geometry& g) {
  std::vector<Axis> axes = box.axes;
  g = {};
  g.channels = g.outputs = box.run;
  g.kernel_y = g.kernel_x = g.stride_x = g.dilation_y = g.dilation_x = 1;
  g.values = g.by_channel = true;
  g.result_pitch = axes.back().to;
  const bool repeats = axes.back().from == 0;
  if (repeats) {
    g.repeats = axes.back().count;
    axes.pop_back();
    if (axes.empty() || !nests(axes.back(), box.axes.back()))
      axes.push_back({1, box.run, g.repeats * g.result_pitch});
  }
  const size_t popped = box.axes.size() - axes.size(), n = axes.size();
  const Axis pixels = axes.back();
  if (n >= 2 && pixels.from > 0 && nests(axes[n - 2], pixels)) {
    const Axis rows = axes[n - 2];
    g.columns = pixels.count * g.repeats;
    const Geometry before = g;
    if (rows.from >= (pixels.count - 1) * pixels.from + box.run) {
      if (lay_rows(size, rows, pixels, g)) return popped + 2;
    } else if (rows.from == 0 || rows.from < pixels.from) {
      const bool whole = rows.from == 0 && n >= 3 && nests(axes[n - 3], rows);
      const Axis images = whole ? axes[n - 3] : Axis{1, 0, 0};
      if (lay_rows_in_lines(size, images, rows, pixels, g)) return popped + (whole ? 3 : 2);
    }
    g = before;
  }
  return lay_pixels(size, pixels, g) ? popped + 1 : 0;
}

// The offsets for all indices of the outer axes.
std::vector<Place> places_of(const std::vector<Axis>& axes) {
  std::vector<Place> places{{0, 0}};
  for (const Axis& axis : axes) {
    std::vector<Place> more;
    for (const Place& place : places)
      for (int64_t i = 0; i < axis.count; ++i)
        more.push_back({place.input + i * axis.from, place.result + i * axis.to});
    places = std::move(more);
  }
  return places;
}

}  // namespace

MovePlan plan_move(const CoreSize& size, const FpgaMove& move) {
  MovePlan planned;
  Box box = box_of(size, move);
  const bool backwards = std::any_of(box.axes.begin(), box.axes.end(),
                                     [](const Axis& axis) { return axis.from < 0; });
  if (backwards) {
    refuse(planned.plan, "negative strides are not supported");
    return planned;
  }
  const Axis& last = box.axes.back();
  if (last.from == 0 && last.count > CORE_PIXELS) {
    refuse(planned.plan, "a pixel is repeated " + std::to_string(last.count) +
                             " times, a block has " + std::to_string(CORE_PIXELS) + " pixels");
    return planned;
  }
  Geometry g{};
  const size_t inner = lay_axes(size, box, g);
  if (inner == 0) {
    refuse(planned.plan, "the rows do not fit the line buffer");
    return planned;
  }
  box.axes.resize(box.axes.size() - std::min(inner, box.axes.size()));
  int64_t launches = 1;
  for (const Axis& axis : box.axes) launches = std::min(launches * axis.count, MAX_LAUNCHES + 1);
  if (launches > MAX_LAUNCHES)
    refuse(planned.plan, "the copy needs more than " + std::to_string(MAX_LAUNCHES) + " launches");
  if (!planned.plan.taken()) return planned;
  planned.plan = plan_values(size, g, {});
  planned.places = places_of(box.axes);
  return planned;
}

}  // namespace ceras
