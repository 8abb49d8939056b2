/* Prints the processor time of each layer on the first thread and on all threads; see threads.py. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model.h"

enum { MAX_LAYERS = 4096 };

static double first[MAX_LAYERS], all[MAX_LAYERS], last_first, last_all;
static int layers;

static double milliseconds(clockid_t kind)
{
  struct timespec now;
  clock_gettime(kind, &now);
  return now.tv_sec * 1e3 + now.tv_nsec * 1e-6;
}

static void start(void)
{
  last_first = milliseconds(CLOCK_THREAD_CPUTIME_ID);
  last_all = milliseconds(CLOCK_PROCESS_CPUTIME_ID);
}

void model_trace(int layer, const void *data, unsigned long bytes)
{
  (void)data;
  (void)bytes;
  const double mine = milliseconds(CLOCK_THREAD_CPUTIME_ID) - last_first;
  const double total = milliseconds(CLOCK_PROCESS_CPUTIME_ID) - last_all;
  if (layer >= layers) {
    layers = layer + 1;
  }
  if (first[layer] == 0.0 || mine < first[layer]) {
    first[layer] = mine;
  }
  if (all[layer] == 0.0 || total < all[layer]) {
    all[layer] = total;
  }
  start();
}

static float input[INPUT_SIZE];
static unsigned char output[1 << 24];

static void print(const char *name, const double *values)
{
  printf("\"%s\":[", name);
  for (int i = 0; i < layers; ++i) {
    printf("%s%.6f", i ? "," : "", values[i]);
  }
  printf("],");
}

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
    start();
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
  printf("{");
  print("first", first);
  print("all", all);
  printf("\"wall\":%.6f,\"checksum\":%lu}\n", wall, checksum);
  return 0;
}
