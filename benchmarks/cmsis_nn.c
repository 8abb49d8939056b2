/* Runs the layers in in.bin with CMSIS-NN. For each layer, it writes to out.bin 32 bits, the ticks
 * of `repeat` calls, and the result. Work that does not depend on the input is not counted. */
#include <stdint.h>

#include "arm_nnfunctions.h"
#include "semihosting.h"

#if defined(HELIUM) && !defined(ARM_MATH_MVEI)
#error "this compiler or these flags select the code for cores without Helium"
#endif

/* Functions for weights of 4 bits have equal parameters, and products no scratch memory. */
#if BITS == 4
#define CONVOLVE(kind) arm_convolve_wrapper_s4##kind
#define CONVOLVE_EACH(kind) arm_depthwise_conv_wrapper_s4##kind
#define MULTIPLY arm_fully_connected_s4
#define MULTIPLY_BYTES(filter) 0
#else
#define CONVOLVE(kind) arm_convolve_wrapper_s8##kind
#define CONVOLVE_EACH(kind) arm_depthwise_conv_wrapper_s8##kind
#define MULTIPLY arm_fully_connected_s8
#define MULTIPLY_BYTES(filter) arm_fully_connected_s8_get_buffer_size(filter)
#endif

enum call { CONVOLUTION, DEPTHWISE, PRODUCT, AVERAGE, MAXIMUM, ADD, SOFTMAX };

struct layer {
  int32_t call, repeat;
  cmsis_nn_dims input, filter, output;
  cmsis_nn_conv_params window;
};

static int32_t size(cmsis_nn_dims dims) { return dims.n * dims.h * dims.w * dims.c; }

struct data {
  int8_t *input, *filter, *output; /* An addition has its second operand in `filter`. */
  int32_t *bias, *multiplier, *shift;
  cmsis_nn_context scratch;
};

/* Constants of TensorFlow Lite: softmax of scale 1/8, and the mean as an addition. */
enum { SOFTMAX_MULTIPLIER = 1 << 30, SOFTMAX_SHIFT = 24, SOFTMAX_MIN = -124 };
enum { ADD_LEFT_SHIFT = 20, ADD_MULTIPLIER = 1 << 30, ADD_SHIFT = -19 };

static cmsis_nn_dw_conv_params depthwise(const struct layer *l)
{
  const cmsis_nn_conv_params *w = &l->window;
  const cmsis_nn_dw_conv_params params = {
    w->input_offset, w->output_offset, l->output.c / l->input.c,
    w->stride, w->padding, w->dilation, w->activation,
  };
  return params;
}

static int32_t scratch_bytes(const struct layer *l)
{
  const cmsis_nn_dw_conv_params params = depthwise(l);
  switch (l->call) {
    case CONVOLUTION:
      return CONVOLVE(_get_buffer_size)(&l->window, &l->input, &l->filter, &l->output);
    case DEPTHWISE:
      return CONVOLVE_EACH(_get_buffer_size)(&params, &l->input, &l->filter, &l->output);
    case PRODUCT: return MULTIPLY_BYTES(&l->filter);
    case AVERAGE: return arm_avgpool_s8_get_buffer_size(l->output.w, l->output.c);
    default: return 0;
  }
}

/* A product without DSP or Helium has no sums of the filter, and `scratch` is empty. */
static void prepare(const struct layer *l, const struct data *d)
{
  if (l->call == PRODUCT && d->scratch.size)
    arm_vector_sum_s8(d->scratch.buf, l->filter.n, l->filter.c, d->filter, l->window.input_offset,
                      0, d->bias);
}

static arm_cmsis_nn_status run(const struct layer *l, const struct data *d)
{
  const cmsis_nn_conv_params *w = &l->window;
  const cmsis_nn_dims bias = {1, 1, 1, l->output.c};
  const cmsis_nn_per_channel_quant_params per_channel = {d->multiplier, d->shift};
  switch (l->call) {
    case CONVOLUTION:
      return CONVOLVE()(&d->scratch, w, &per_channel, &l->input, d->input, &l->filter, d->filter,
                        &bias, d->bias, &l->output, d->output);
    case DEPTHWISE: {
      const cmsis_nn_dw_conv_params params = depthwise(l);
      return CONVOLVE_EACH()(&d->scratch, &params, &per_channel, &l->input, d->input, &l->filter,
                             d->filter, &bias, d->bias, &l->output, d->output);
    }
    case PRODUCT: {
      const cmsis_nn_fc_params params = {w->input_offset, 0, w->output_offset, w->activation};
      const cmsis_nn_per_tensor_quant_params quant = {d->multiplier[0], d->shift[0]};
      return MULTIPLY(&d->scratch, &params, &quant, &l->input, d->input, &l->filter, d->filter,
                      &bias, d->bias, &l->output, d->output);
    }
    case AVERAGE:
    case MAXIMUM: {
      const cmsis_nn_pool_params params = {w->stride, w->padding, w->activation};
      return (l->call == AVERAGE ? arm_avgpool_s8 : arm_max_pool_s8)(
        &d->scratch, &params, &l->input, d->input, &l->filter, &l->output, d->output);
    }
    case ADD:
      return arm_elementwise_add_s8(
        d->input, d->filter, w->input_offset, ADD_MULTIPLIER, 0, w->input_offset, ADD_MULTIPLIER, 0,
        ADD_LEFT_SHIFT, d->output, w->output_offset, ADD_MULTIPLIER, ADD_SHIFT, w->activation.min,
        w->activation.max, size(l->output));
    default:
      arm_softmax_s8(d->input, l->input.n, l->input.c, SOFTMAX_MULTIPLIER, SOFTMAX_SHIFT,
                     SOFTMAX_MIN, d->output);
      return ARM_CMSIS_NN_SUCCESS;
  }
}

static _Alignas(16) uint8_t pool[768 << 10];
static uint32_t taken;

static void *take(int32_t bytes)
{
  void *const start = pool + taken;
  taken += ((uint32_t)bytes + 15) / 16 * 16;
  if (taken > sizeof pool) leave(4);
  return start;
}

int main(void)
{
  const int in = open_file("in.bin", 6, 1), out = open_file("out.bin", 7, 5);
  if (in < 0 || out < 0) return 3;
  start_systick();
  struct layer l;
  while (transfer(0x06, in, &l, sizeof l) == 0) {
    taken = 0;
    int32_t *const channels = take(3 * l.output.c * 4);
    const int32_t filter = l.call <= PRODUCT ? (size(l.filter) * BITS + 7) / 8 : size(l.filter);
    const cmsis_nn_context scratch = {take(scratch_bytes(&l)), scratch_bytes(&l)};
    const struct data d = {
      take(size(l.input)), take(filter), take(size(l.output)),
      channels, channels + l.output.c, channels + 2 * l.output.c, scratch,
    };
    if (transfer(0x06, in, d.input, (uint32_t)size(l.input)) != 0 ||
        transfer(0x06, in, d.filter, (uint32_t)filter) != 0 ||
        transfer(0x06, in, channels, (uint32_t)l.output.c * 12) != 0)
      return 5;
    prepare(&l, &d);
    const uint32_t before = SYSTICK[2];
    for (int32_t i = 0; i < l.repeat; ++i)
      if (run(&l, &d) != ARM_CMSIS_NN_SUCCESS) return 6;
    uint32_t ticks = (before - SYSTICK[2]) & 0xffffff;
    if (transfer(0x05, out, &ticks, sizeof ticks) != 0 ||
        transfer(0x05, out, d.output, (uint32_t)size(l.output)) != 0)
      return 7;
  }
  return 0;
}
