/* The processor's own limits: products per second of vpdpbusd and of the fused float product,
 * from loops that do nothing else. Prints one line of JSON, in units of 10^9 products a second. */
#define _POSIX_C_SOURCE 199309L
#include <stdint.h>
#include <stdio.h>
#include <time.h>

typedef int32_t i32v __attribute__((vector_size(64)));
typedef float f32v __attribute__((vector_size(64)));

enum { STEPS = 4000000, SUMS = 12, REPEATS = 7 };

static double seconds(void)
{
  struct timespec now;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return now.tv_sec + now.tv_nsec * 1e-9;
}

#define TWELVE(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define KEEP(x) __asm__ volatile("" : "+v"(x))

/* A function that takes the time of STEPS times twelve instructions, of so many products each. */
#define DECLARE(n) , s##n = {0}
#define USE(n) KEEP(s##n);
#define RATE(name, vector, products, instruction)                                                \
  static double name(void)                                                                       \
  {                                                                                              \
    vector x = {1, 2, 3}, w = {4, 5, 6} TWELVE(DECLARE);                                         \
    const double start = seconds();                                                              \
    for (int i = 0; i < STEPS; ++i) {                                                            \
      TWELVE(instruction)                                                                        \
    }                                                                                            \
    const double taken = seconds() - start;                                                      \
    TWELVE(USE)                                                                                  \
    return products * SUMS * STEPS / taken * 1e-9;                                               \
  }
#define DOT(n) __asm__ volatile("vpdpbusd %2, %1, %0" : "+v"(s##n) : "v"(x), "v"(w));
#define FUSED(n) __asm__ volatile("vfmadd231ps %2, %1, %0" : "+v"(s##n) : "v"(x), "v"(w));
RATE(bytes, i32v, 64.0, DOT)
RATE(floats, f32v, 16.0, FUSED)

int main(void)
{
  double best = 0, best_float = 0;
  for (int i = 0; i < REPEATS; ++i) {
    const double now = bytes(), now_float = floats();
    best = now > best ? now : best;
    best_float = now_float > best_float ? now_float : best_float;
  }
  printf("{\"int8\":%.1f,\"float32\":%.1f}\n", best, best_float);
  return 0;
}
