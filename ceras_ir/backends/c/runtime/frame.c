/* The size of a frame, the part of it that an image has, and the size of the image. */
struct frame {
  int32_t height;
  int32_t width;
  int32_t top;
  int32_t left;
  int32_t crop_height;
  int32_t crop_width;
  int32_t rows;
  int32_t columns;
};
