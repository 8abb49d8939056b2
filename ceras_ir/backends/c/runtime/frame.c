/* The size of a frame, the part of it that an image has, and the size of the image. */
struct frame {
  int32_t height, width, top, left, crop_height, crop_width, rows, columns;
};
