/* Runs a network in two threads at a time, each with its own arena. Returns 0 if all results equal
 * those of a single run. INPUT and OUTPUT are the numbers of floats. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

static float input[INPUT], expected[OUTPUT];

static void *caller(void *different)
{
  void *arena = malloc(MODEL_ARENA_BYTES);
  float *output = malloc(sizeof expected);
  for (int run = 0; run < 40; ++run) {
    memset(output, 0, sizeof expected);
    if (model_run_in(arena, input, output) != MODEL_OK ||
        memcmp(output, expected, sizeof expected) != 0)
      *(int *)different = 1;
  }
  free(output);
  free(arena);
  return NULL;
}

int main(void)
{
  for (int i = 0; i < INPUT; ++i) input[i] = (float)(i * 37 % 101) / 50.0f - 1.0f;
  if (model_run(input, expected) != MODEL_OK) return 2;
  pthread_t threads[2];
  int different[2] = {0, 0};
  for (int i = 0; i < 2; ++i)
    if (pthread_create(&threads[i], NULL, caller, &different[i]) != 0) return 2;
  for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
  return different[0] || different[1];
}
