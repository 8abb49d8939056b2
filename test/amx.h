/* The tiles of AMX for processors that lack them, from their definition, and with checks: shapes of
 * operands must match, and sanitizers see each byte that is loaded. Included before generated C. */
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512VNNI__) && defined(__AVX512BW__) && defined(__AVX512VL__)
#define MODEL_AMX 1
#endif
#ifndef MODEL_REQUEST_AMX
#define MODEL_REQUEST_AMX() 1
#endif
#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbssd
#undef _tile_dpbusd
#define _tile_loadconfig emulated_config
#define _tile_release emulated_release
#define _tile_zero emulated_zero
#define _tile_loadd emulated_load
#define _tile_stored emulated_store
#define _tile_dpbssd(sums, x, w) emulated_products(sums, x, w, 1)
#define _tile_dpbusd(sums, x, w) emulated_products(sums, x, w, 0)
#define EMULATED static __attribute__((noinline, unused))

struct emulated_tile {
  int rows;
  int bytes;
  uint8_t cells[16][64];
};
static __thread struct emulated_tile emulated_tiles[8];

EMULATED struct emulated_tile *emulated_at(int t)
{
  if (emulated_tiles[t].rows == 0) __builtin_trap();
  return &emulated_tiles[t];
}

EMULATED void emulated_release(void) { memset(emulated_tiles, 0, sizeof emulated_tiles); }

EMULATED void emulated_config(const void *config)
{
  const uint8_t *bytes = (const uint8_t *)config;
  emulated_release();
  if (bytes[0] != 1 || bytes[1] != 0) __builtin_trap();
  for (int t = 0; t < 8; ++t) {
    const int wide = bytes[16 + 2 * t] + 256 * bytes[17 + 2 * t], rows = bytes[48 + t];
    if (wide < 1 || wide > 64 || wide % 4 != 0 || rows < 1 || rows > 16) __builtin_trap();
    emulated_tiles[t].bytes = wide;
    emulated_tiles[t].rows = rows;
  }
}

EMULATED void emulated_zero(int t) { memset(emulated_at(t)->cells, 0, 1024); }

EMULATED void emulated_load(int t, const void *from, long distance)
{
  struct emulated_tile *to = emulated_at(t);
  for (int r = 0; r < to->rows; ++r)
    for (int i = 0; i < to->bytes; ++i)
      to->cells[r][i] = ((const volatile uint8_t *)from)[r * distance + i];
}

EMULATED void emulated_store(int t, void *to, long distance)
{
  const struct emulated_tile *from = emulated_at(t);
  for (int r = 0; r < from->rows; ++r)
    for (int i = 0; i < from->bytes; ++i)
      ((volatile uint8_t *)to)[r * distance + i] = from->cells[r][i];
}

EMULATED void emulated_products(int sums, int x, int w, int is_signed)
{
  struct emulated_tile *c = emulated_at(sums);
  const struct emulated_tile *a = emulated_at(x), *b = emulated_at(w);
  if (c->rows != a->rows || c->bytes != b->bytes || a->bytes != 4 * b->rows) __builtin_trap();
  for (int r = 0; r < c->rows; ++r)
    for (int n = 0; n < c->bytes / 4; ++n) {
      uint32_t sum;
      memcpy(&sum, &c->cells[r][4 * n], 4);
      for (int k = 0; k < a->bytes; ++k) {
        const int left = is_signed ? (int8_t)a->cells[r][k] : a->cells[r][k];
        sum += (uint32_t)(left * (int8_t)b->cells[k / 4][4 * n + k % 4]);
      }
      memcpy(&c->cells[r][4 * n], &sum, 4);
    }
}
