/* Initializes memory before main, by the symbols of board.ld. */
#ifndef PREPARE_MEMORY_H
#define PREPARE_MEMORY_H

#include <stdint.h>

extern uint32_t stack_top, data_source, data_start, data_end, bss_start, bss_end;
extern void (*const init_start[])(void), (*const init_end[])(void);

static inline void prepare_memory(void)
{
  const uint32_t *from = &data_source;
  for (uint32_t *to = &data_start; to < &data_end;) *to++ = *from++;
  for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
  for (void (*const *init)(void) = init_start; init < init_end; ++init) (*init)();
}

#endif
