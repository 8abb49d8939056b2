/* Run layers of ncnn, for cross_peers.py; the arguments are those of cross_xnnpack.c.
 *
 * Inputs are arranged as ncnn arranges them between layers, before the runs. Int8 layers return int8,
 * and multiply without Winograd, for which weights must have 6 bits. */
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "cpu.h"
#include "layer.h"
#include "modelbin.h"
#include "paramdict.h"

static ncnn::Mat floats(int count)
{
  ncnn::Mat found(count);
  for (int i = 0; i < count; ++i) found[i] = 0.1f + (i * 37 % 128) / 128.0f;
  return found;
}

static ncnn::Mat bytes(int count)
{
  ncnn::Mat found(count, (size_t)1);
  for (int i = 0; i < count; ++i) ((signed char *)found)[i] = (signed char)(i * 37 % 128 - 64);
  return found;
}

struct Task {
  ncnn::Layer *layer;
  ncnn::Option option;
  ncnn::Mat input;
};

static Task task(const char *text, ncnn::Option option)
{
  int n[16];
  for (int i = 0; i < 16; ++i) n[i] = (int)strtol(text, (char **)&text, 10), ++text;
  option.use_winograd_convolution = n[0];
  bool is_float = n[0], is_product = n[1] * n[2] * n[5] * n[6] == 1;
  int weights = n[4] * n[5] * n[6] * (n[3] / n[15]);
  const char *kind = is_product ? "InnerProduct" : n[15] > 1 ? "ConvolutionDepthWise" : "Convolution";
  Task made = {ncnn::create_layer(kind), option, ncnn::Mat()};
  ncnn::ParamDict values;
  values.set(0, n[4]);
  values.set(is_product ? 1 : 5, 1);
  values.set(is_product ? 2 : 6, weights);
  values.set(8, is_float ? 0 : is_product ? 1 : 101);
  if (!is_product) {
    const int at[] = {11, 1, 13, 3, 12, 2, 14, 4, 16, 15}, from[] = {5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
    for (int i = 0; i < 10; ++i) values.set(at[i], n[from[i]]);
    values.set(7, n[15]);
  }
  std::vector<ncnn::Mat> stored = {is_float ? floats(weights) : bytes(weights), floats(n[4])};
  if (!is_float) {
    stored.push_back(floats(n[15] > 1 ? n[15] : n[4]));
    stored.push_back(floats(n[15] > 1 ? n[15] : 1));
    stored.push_back(floats(n[15] > 1 ? n[15] : 1));
  }
  if (made.layer->load_param(values) || made.layer->load_model(ncnn::ModelBinFromMatArray(stored.data())) ||
      made.layer->create_pipeline(option))
    fprintf(stderr, "failed: %s\n", kind), exit(1);
  ncnn::Mat plain = is_float ? floats(n[1] * n[2] * n[3]) : bytes(n[1] * n[2] * n[3]);
  plain = is_product ? plain : plain.reshape(n[2], n[1], n[3]);
  int bytes_of_vector = ncnn::cpu_riscv_vlenb();
  int lanes = bytes_of_vector ? (is_float ? bytes_of_vector / 4 : 1) : is_float ? 4 : 8;
  ncnn::convert_packing(plain, made.input, n[3] % lanes ? 1 : lanes, option);
  return made;
}

int main(int argc, char **argv)
{
  ncnn::Option option;
  option.num_threads = 1;
  option.use_fp16_packed = option.use_fp16_storage = option.use_fp16_arithmetic = false;
  option.use_bf16_storage = false;
  std::vector<Task> tasks;
  for (int i = 2; i < argc; ++i) tasks.push_back(task(argv[i], option));
  for (int run = atoi(argv[1]); run > 0; --run)
    for (auto &each : tasks) {
      ncnn::Mat result;
      if (each.layer->forward(each.input, result, each.option)) fprintf(stderr, "failed\n"), exit(1);
    }
  return 0;
}
