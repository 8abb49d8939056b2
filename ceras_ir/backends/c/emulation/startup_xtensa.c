/* Reset of an Xtensa without an operating system: memory as C wants it, then main. */
#include <stdint.h>

extern uint32_t stack_top, data_source, data_start, data_end, bss_start, bss_end;
extern void (*const init_start[])(void), (*const init_end[])(void);

int main(void);

__attribute__((used)) static void start(void)
{
  const uint32_t *from = &data_source;
  for (uint32_t *to = &data_start; to < &data_end;) *to++ = *from++;
  for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
  for (void (*const *init)(void) = init_start; init < init_end; ++init) (*init)();
  (void)main();
  for (;;) __asm__ volatile("");
}

/* l32r reads words that stand before it. */
__asm__(".section .vectors, \"ax\"\n"
        ".global reset\n"
        "reset: j 3f\n"
        ".align 4\n"
        "1: .word stack_top\n"
        "2: .word start\n"
        "3: l32r a1, 1b\n"
        "l32r a0, 2b\n"
        "jx a0\n"
        ".text\n");
