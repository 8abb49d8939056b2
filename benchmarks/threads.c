/* Prints the processor time of each layer on the first thread; see threads.py. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model.h"

enum { MAX_LAYERS = 4096 };

static double times[MAX_LAYERS], last;
static int layers;

static double milliseconds(clockid_t kind)
{
  struct timespec now;
  clock_gettime(kind, &now);
  return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

void model_trace(int layer, const void *data, unsigned long bytes)
{
  (void)data;
  (void)bytes;
  const double taken = milliseconds(CLOCK_THREAD_CPUTIME_ID) - last;
  if (layer >= layers) {
    layers = layer + 1;
  }
  if (times[layer] == 0.0 || taken < times[layer]) {
    times[layer] = taken;
  }
  last = milliseconds(CLOCK_THREAD_CPUTIME_ID);
}

static float input[INPUT_SIZE];
static unsigned char output[1 << 24];

int main(int argc, char **argv)
{
  const int runs = argc > 1 ? atoi(argv[1]) : 1;
  unsigned long seed = 1;
  for (long i = 0; i < INPUT_SIZE; ++i) {
    seed = (seed * 1103515245ul + 12345ul) & 0xFFFFFFFFul;
    input[i] = (seed >> 16 & 255) / 128.0f - 1.0f;
  }
  double wall = 1e30;
  for (int run = 0; run < runs; ++run) {
    const double begin = milliseconds(CLOCK_MONOTONIC);
    last = milliseconds(CLOCK_THREAD_CPUTIME_ID);
    if (model_run(input, (void *)output) != MODEL_OK) {
      return 1;
    }
    const double elapsed = milliseconds(CLOCK_MONOTONIC) - begin;
    wall = elapsed < wall ? elapsed : wall;
  }
  unsigned long checksum = 0;
  for (unsigned long i = 0; i < sizeof output; ++i) {
    checksum = (checksum * 31u + output[i]) & 0xFFFFFFFFul;
  }
  printf("{\"layers\":[");
  for (int i = 0; i < layers; ++i) {
    printf("%s%.6f", i ? "," : "", times[i]);
  }
  printf("],\"wall\":%.6f,\"checksum\":%lu}\n", wall, checksum);
  return 0;
}
