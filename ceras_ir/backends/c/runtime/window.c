/* A sliding window over feature maps [N, height, width, channels]. Output positions are numbered
 * row-major over [N, rows, columns]. */
struct window {
  int32_t height, width, channels, rows, columns;
  int32_t kernel_h, kernel_w, stride_h, stride_w, top, left, dilation_h, dilation_w;
};

/* The taps [first, end) inside of [0, size) of a window that starts at `start`, possibly in the
 * padding. */
static int32_t first_tap(int32_t start, int32_t dilation)
{
  return start < 0 ? (dilation - 1 - start) / dilation : 0;
}

static int32_t end_tap(int32_t start, int32_t dilation, int32_t size, int32_t kernel)
{
  const int32_t end = start < size ? (size - start + dilation - 1) / dilation : 0;
  return end < kernel ? end : kernel;
}
