/* The processor's own limits: products per second of the exact 8-bit product (vpdpbusd, or vpmaddwd
 * without VNNI), of the fused float product and, if it has them, of the tiles of AMX, from loops that
 * do nothing else. Prints one line of JSON, in units of 10^9 products a second; 0 without AMX. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <time.h>

/* As many sums as fit into the registers with the operands: 32 registers, or 16. */
#ifdef __AVX512F__
#define BYTES 64
#define SUMS 12
#else
#define BYTES 32
#define SUMS 10
#endif
typedef int32_t i32v __attribute__((vector_size(BYTES)));
typedef float f32v __attribute__((vector_size(BYTES)));

enum { STEPS = 4000000, REPEATS = 7 };

static double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

#define TEN(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9)
#if SUMS == 12
#define EACH(F) TEN(F) F(10) F(11)
#else
#define EACH(F) TEN(F)
#endif
#define KEEP(x) __asm__ volatile("" : "+v"(x))

/* A function that takes the time of STEPS times SUMS instructions, of so many products each. */
#define DECLARE(n) , s##n = {0}
#define USE(n) KEEP(s##n);
#define RATE(name, vector, products, instruction)                                                \
  static __attribute__((noinline)) double name(void)                                             \
  {                                                                                              \
    vector x = {1, 2, 3}, w = {4, 5, 6} EACH(DECLARE);                                           \
    const double start = seconds();                                                              \
    for (int i = 0; i < STEPS; ++i) {                                                            \
      EACH(instruction)                                                                          \
    }                                                                                            \
    const double taken = seconds() - start;                                                      \
    EACH(USE)                                                                                    \
    return products * SUMS * STEPS / taken * 1e-9;                                               \
  }
#ifdef __AVX512VNNI__
#define PRODUCTS BYTES
#define DOT(n) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(s##n) : "v"(x), "v"(w));
#else
/* Each product needs two instructions, which run on different ports. */
#define PRODUCTS (BYTES / 2)
#define DOT(n)                                                                                   \
  {                                                                                              \
    i32v p;                                                                                      \
    __asm__ volatile("vpmaddwd %2, %3, %1\n\tvpaddd %1, %0, %0"                                  \
                     : "+v"(s##n), "=&v"(p)                                                      \
                     : "v"(x), "v"(w));                                                          \
  }
#endif
#define FUSED(n) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(s##n) : "v"(x), "v"(w));
RATE(bytes, i32v, (double)PRODUCTS, DOT)
RATE(floats, f32v, BYTES / 4.0, FUSED)

#ifdef __AMX_INT8__
#include <immintrin.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { REQUEST_PERMISSION = 0x1023, TILE_DATA = 18, TILES = 8, ROWS = 16, ROW_BYTES = 64 };

static double tiles(void)
{
  struct {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
  } layout = {.palette = 1};
  if (syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA)) return 0;
  for (int i = 0; i < TILES; ++i) layout.bytes[i] = ROW_BYTES, layout.rows[i] = ROWS;
  _tile_loadconfig(&layout);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
  const double start = seconds();
  for (int i = 0; i < STEPS / 16; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  const double taken = seconds() - start;
  _tile_release();
  return 4.0 * ROWS * ROWS * ROW_BYTES * (STEPS / 16) / taken * 1e-9;
}
#else
static double tiles(void)
{
  return 0;
}
#endif

int main(void)
{
  double best = 0, best_float = 0, best_tiles = 0;
  for (int i = 0; i < REPEATS; ++i) {
    const double now = bytes(), now_float = floats(), now_tiles = tiles();
    best = now > best ? now : best;
    best_float = now_float > best_float ? now_float : best_float;
    best_tiles = now_tiles > best_tiles ? now_tiles : best_tiles;
  }
  printf("{\"int8\":%.1f,\"float32\":%.1f,\"amx\":%.1f}\n", best, best_float, best_tiles);
  return 0;
}
