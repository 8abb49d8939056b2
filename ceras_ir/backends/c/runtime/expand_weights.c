/* Expands weights of @BITS@ bits to bytes, @WORDS@ words from @PACKED@ at a time. */
static void expand_weights_@NAME@(uint32_t *restrict to, const uint32_t *restrict from,
                                  int32_t count)
{
  for (int32_t left = count; left > 0; --left) {
    @LANES@
@LOADS@
@STEPS@
    }
    to += @WORDS@;
    from += @PACKED@;
  }
}
