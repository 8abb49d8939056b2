#include "vectors_f32.c"
#include "finish_f32.c"
/* How a layer on vectors of 8 floats loads windows and stores results. */
#if MODEL_F32 == 8
struct rows_f32 {
  /* Windows are `column` floats apart, and `row` after each `columns`; results are `outputs` apart. */
  int32_t columns, row, column, outputs;
  /* A window has `runs` times `pieces` contiguous parts of `steps` floats, `pitch` and `piece`
   * apart. */
  int32_t runs, pitch, pieces, piece, steps;
  /* The outputs of a panel of weights. */
  int32_t width;
  float low, high;
};

enum { PACKED_TAPS = @PACKED_TAPS@ };

/* The windows of the next group: their distances from the first window. */
MODEL_INLINE void next_windows(int32_t *at, int32_t count, int32_t *row, int32_t *column,
                               const struct rows_f32 *g)
{
  for (int32_t j = 0; j < count; ++j) {
    at[j] = *row * g->row + *column * g->column;
    if (++*column == g->columns) *column = 0, ++*row;
  }
}
#endif
