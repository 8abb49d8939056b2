/* Run layers by operators of XNNPACK, for cross_peers.py.
 *
 *     cross_xnnpack RUNS LAYER...
 *
 * A layer is 16 numbers with commas: is float, height, width, channels, filters, window (height, width),
 * strides, dilations, padding (top, left, bottom, right), groups. Weights and inputs are arbitrary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "xnnpack.h"

#define CHECK(call) \
  if ((call) != xnn_status_success) fprintf(stderr, "failed: %s\n", #call), exit(1)

static void *bytes(size_t count)
{
  signed char *found = calloc(count + XNN_EXTRA_BYTES, 1);
  for (size_t i = 0; i < count; ++i) found[i] = (signed char)(i * 37 % 128 - 64);
  return found;
}

static float *floats(size_t count)
{
  float *found = calloc(count * sizeof(float) + XNN_EXTRA_BYTES, 1);
  for (size_t i = 0; i < count; ++i) found[i] = 0.1f + (float)(i * 37 % 128) / 128.0f;
  return found;
}

static xnn_operator_t layer(const char *text)
{
  unsigned n[16];
  for (int i = 0; i < 16; ++i) n[i] = (unsigned)strtoul(text, (char **)&text, 10), ++text;
  size_t inputs = n[3] / n[15], filters = n[4] / n[15], workspace, height, width;
  size_t weights = (size_t)n[4] * n[5] * n[6] * inputs, sizes = (size_t)n[1] * n[2] * n[3];
  xnn_operator_t op;
  /* The order of weights of depthwise layers does not matter here: they are arbitrary. */
  unsigned flags = n[15] > 1 && inputs == 1 ? XNN_FLAG_DEPTHWISE_CONVOLUTION : 0;
  if (n[0]) {
    CHECK(xnn_create_convolution2d_nhwc_f32(
        n[11], n[14], n[13], n[12], n[5], n[6], n[7], n[8], n[9], n[10], n[15], inputs, filters, n[3],
        n[4], floats(weights), floats(n[4]), 0.0f, 6.0f, flags, NULL, &op));
    CHECK(xnn_reshape_convolution2d_nhwc_f32(op, 1, n[1], n[2], &workspace, &height, &width, NULL));
    CHECK(xnn_setup_convolution2d_nhwc_f32(op, bytes(workspace), floats(sizes),
                                           floats(height * width * n[4])));
  } else {
    CHECK(xnn_create_convolution2d_nhwc_qs8_qc8w(
        n[11], n[14], n[13], n[12], n[5], n[6], n[7], n[8], n[9], n[10], n[15], inputs, filters, n[3],
        n[4], 3, 0.5f, floats(n[4]), bytes(weights), bytes(n[4] * 4), 1, 300.0f, -128, 127,
        flags, NULL, &op));
    CHECK(xnn_reshape_convolution2d_nhwc_qs8_qc8w(op, 1, n[1], n[2], &workspace, &height, &width, NULL));
    CHECK(xnn_setup_convolution2d_nhwc_qs8_qc8w(op, bytes(workspace), bytes(sizes),
                                                bytes(height * width * n[4])));
  }
  return op;
}

int main(int argc, char **argv)
{
  xnn_operator_t ops[256];
  CHECK(xnn_initialize(NULL));
  for (int i = 2; i < argc; ++i) ops[i - 2] = layer(argv[i]);
  for (int run = atoi(argv[1]); run > 0; --run)
    for (int i = 2; i < argc; ++i) CHECK(xnn_run_operator(ops[i - 2], NULL));
  return 0;
}
