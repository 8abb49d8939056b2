#include "frame.c"
/* The value of the image at a pixel of the frame. */
static void pixel_@NAME@(const uint8_t *x, const struct frame *f, int32_t row, int32_t column,
                         int32_t *restrict rgb)
{
@PIXEL@}
/* Crops a frame, and resizes the crop. Positions and weights have 8 bits after the point. */
static void decode_frame_@NAME@(const uint8_t *restrict x, uint8_t *restrict y,
                                const struct frame *f)
{
  for (int32_t i = 0; i < f->rows; ++i) {
    const int32_t down = @PLACE@(i, f->crop_height, f->rows);
    const int32_t top = f->top + (down >> 8);
    const int32_t bottom = top + ((down & 255) != 0);
    for (int32_t j = 0; j < f->columns; ++j) {
      const int32_t across = @PLACE@(j, f->crop_width, f->columns);
      const int32_t left = f->left + (across >> 8);
      const int32_t right = left + ((across & 255) != 0);
      const int32_t v = down & 255;
      const int32_t h = across & 255;
      int32_t a[@CHANNELS@];
      pixel_@NAME@(x, f, top, left, a);
      if ((v | h) == 0) {
        for (int32_t c = 0; c < @CHANNELS@; ++c) {
          y[c] = (uint8_t)a[c];
        }
      } else {
        int32_t b[@CHANNELS@];
        int32_t d[@CHANNELS@];
        int32_t e[@CHANNELS@];
        pixel_@NAME@(x, f, top, right, b);
        pixel_@NAME@(x, f, bottom, left, d);
        pixel_@NAME@(x, f, bottom, right, e);
        for (int32_t c = 0; c < @CHANNELS@; ++c) {
          const int32_t first = (a[c] * (256 - v)) + (d[c] * v);
          const int32_t last = (b[c] * (256 - v)) + (e[c] * v);
          y[c] = (uint8_t)(((first * (256 - h)) + (last * h) + 32768) >> 16);
        }
      }
      y += @CHANNELS@;
    }
  }
}
