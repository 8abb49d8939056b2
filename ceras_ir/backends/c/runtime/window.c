/* A sliding window over feature maps [N, height, width, channels]. Output positions are numbered
 * row-major over [N, rows, columns]. */
struct window {
  int32_t height;
  int32_t width;
  int32_t channels;
  int32_t rows;
  int32_t columns;
  int32_t kernel_h;
  int32_t kernel_w;
  int32_t stride_h;
  int32_t stride_w;
  int32_t top;
  int32_t left;
  int32_t dilation_h;
  int32_t dilation_w;
};

/* The taps [first, end) inside of [0, size) of a window that starts at `start`, possibly in the
 * padding. */
static int32_t first_tap(int32_t start, int32_t dilation)
{
  return (start < 0) ? ((dilation - 1 - start) / dilation) : 0;
}

static int32_t end_tap(int32_t start, int32_t dilation, int32_t size, int32_t kernel)
{
  const int32_t end = (start < size) ? ((size - start + dilation - 1) / dilation) : 0;
  return (end < kernel) ? end : kernel;
}
