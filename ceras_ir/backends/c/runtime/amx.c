#include "vectors_i8.c"
/* Matrix products in the tiles of AMX: 16 rows of 64 bytes. Tiles 0 to 3 are sums, 4 and 6 positions
 * of the input, 5 and 7 weights; 6 and 7 are shorter for the last products of a row. */
#if MODEL_AMX
#include <cpuid.h>
#include <immintrin.h>
/* Linux gives tiles to a process on request: the number of arch_prctl, ARCH_REQ_XCOMP_PERM and
 * XFEATURE_XTILEDATA. It refuses if the processor has no tiles or a signal stack is too small. */
#ifndef MODEL_REQUEST_AMX
#define MODEL_REQUEST_AMX() amx_request(158, 0x1023, 18)
#endif
static int amx_request(long number, long code, long feature)
{
  unsigned int a = 0;
  unsigned int b = 0;
  unsigned int c = 0;
  unsigned int d = 0;
  long result = -1;
  if ((__get_cpuid_count(7, 0, &a, &b, &c, &d) != 0) && ((d & (3U << 24)) == (3U << 24))) {
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "0"(number), "D"(code), "S"(feature)
                     : "rcx", "r11", "memory");
  }
  return result == 0;
}
/* Whether the process may use tiles. Threads that ask at the same time get the same answer. */
static int amx_is_ready(void)
{
  static int answer = -1;
  int known = __atomic_load_n(&answer, __ATOMIC_RELAXED);
  if (known < 0) {
    known = MODEL_REQUEST_AMX();
    __atomic_store_n(&answer, known, __ATOMIC_RELAXED);
  }
  return known;
}
/* Instructions of tiles do not tell compilers which bytes they load. */
#define AMX_STORED() __asm__ volatile("" ::: "memory")
/* Prefetches to the second-level cache, possibly after the end of an array. */
#define AMX_FETCH(p, bytes) __builtin_prefetch((const void *)((uintptr_t)(p) + (bytes)), 0, 2)
/* The same to the first-level cache. */
#define AMX_FETCH_NEAR(p, bytes) __builtin_prefetch((const void *)((uintptr_t)(p) + (bytes)), 0, 3)
/* Configures the tiles of this thread: rows of `positions` inputs and sums, of `steps` words of four
 * products, and of `last` words at the end. */
static void amx_configure(int32_t positions, int32_t steps, int32_t last)
{
  uint8_t tiles[64] = {1};
  for (int32_t t = 0; t < 8; ++t) {
    const int32_t words = (t < 6) ? steps : last;
    const int is_weights = (t == 5) || (t == 7);
    tiles[16 + (2 * t)] = (uint8_t)(((t < 4) || is_weights) ? 64 : (4 * words));
    tiles[48 + t] = (uint8_t)(is_weights ? words : positions);
  }
  __asm__ volatile("" ::"r"(tiles) : "memory");
  _tile_loadconfig(tiles);
}
#define MODEL_HAS_AMX (amx_is_ready() != 0)
#else
#define MODEL_HAS_AMX 0
#endif
