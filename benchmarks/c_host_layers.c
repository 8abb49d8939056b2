/* Compiled with a generated bench.c (its main renamed) and -DMODEL_TRACE: the time of each layer,
 * the lower quartile of its last runs less the least that the clock itself takes, as one line of JSON:
 * {"layer": microseconds}. A least time would be that of a run in which a clock jumped. */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int bench_main(int argc, char **argv);
void model_trace(int layer, const void *data, unsigned long bytes);

enum { MOST_LAYERS = 4096, SAMPLES = 100 };
static double times[MOST_LAYERS + 1][SAMPLES], before;
static int runs[MOST_LAYERS + 1];

static double microseconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

void model_trace(int layer, const void *data, unsigned long bytes)
{
  const double taken = microseconds() - before;
  (void)data, (void)bytes;
  if (layer < MOST_LAYERS) times[layer][runs[layer]++ % SAMPLES] = taken;
  before = microseconds();
}

static int compare(const void *a, const void *b)
{
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double quartile(int layer)
{
  const int count = runs[layer] < SAMPLES ? runs[layer] : SAMPLES;
  qsort(times[layer], (unsigned)count, sizeof(double), compare);
  return times[layer][count / 4];
}

int main(int argc, char **argv)
{
  if (bench_main(argc, argv)) return 1;
  for (int i = 0; i < SAMPLES; ++i) {
    before = microseconds();
    times[MOST_LAYERS][runs[MOST_LAYERS]++] = microseconds() - before;
  }
  quartile(MOST_LAYERS);
  const double empty = times[MOST_LAYERS][0];
  printf("{");
  for (int i = 0, shown = 0; i < MOST_LAYERS; ++i)
    if (runs[i]) printf("%s\"%d\":%.3f", shown++ ? "," : "", i, quartile(i) - empty);
  printf("}\n");
  return 0;
}
