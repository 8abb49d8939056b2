/* How long a processor takes to read so many bytes again and again, in blocks that are taken forwards
 * and backwards in turns, so that the caches still have what was read last: ./recurrent_bound BYTES
 * prints microseconds a pass, the least of many and of several sizes of blocks. */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int32_t line __attribute__((vector_size(64)));
#ifndef __AVX512F__
typedef int32_t half __attribute__((vector_size(32), may_alias));
#endif

enum { AT_ONCE = 16, LINES = 1 << 21, REPEATS = 10, PASSES = 200 };

static line lines[LINES];

static double microseconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec * 1e6 + now.tv_nsec * 1e-3;
}

static void read_once(const line *at, long count, long block, int backwards)
{
  const long blocks = (count + block - 1) / block;
  for (long b = 0; b < blocks; ++b) {
    const long start = (backwards ? blocks - 1 - b : b) * block;
    const long end = start + block < count ? start + block : count;
    for (long i = start; i < end; i += AT_ONCE)
#pragma GCC unroll 16
      for (int k = 0; k < AT_ONCE; ++k) {
#ifdef __AVX512F__
        line found;
        __asm__ volatile("vmovdqa64 %1, %0" : "=v"(found) : "m"(at[i + k]));
#else
        const half *halves = (const half *)&at[i + k];
        half found, rest;
        __asm__ volatile("vmovdqa %1, %0" : "=x"(found) : "m"(halves[0]));
        __asm__ volatile("vmovdqa %1, %0" : "=x"(rest) : "m"(halves[1]));
#endif
      }
  }
}

int main(int argc, char **argv)
{
  const long count = argc > 1 ? atol(argv[1]) / 64 / AT_ONCE * AT_ONCE : 0;
  if (count < AT_ONCE || count > LINES) return 2;
  /* Pages that nobody has written are all the same one. Many bytes need few passes. */
  memset(lines, 1, (size_t)count * sizeof lines[0]);
  const int passes = count > LINES / PASSES ? 2 : PASSES;
  double least = 1e9;
  for (long block = AT_ONCE; block <= 64 * AT_ONCE; block *= 2)
    for (int repeat = 0; repeat < REPEATS; ++repeat) {
      const double start = microseconds();
      for (int pass = 0; pass < passes; ++pass) read_once(lines, count, block, pass % 2);
      const double taken = (microseconds() - start) / passes;
      if (taken < least) least = taken;
    }
  printf("%.4f\n", least);
  return 0;
}
