/* Reset of a 32-bit RISC-V without an operating system: memory as C wants it, then main. */
#include <stdint.h>

extern uint32_t stack_top, data_source, data_start, data_end, bss_start, bss_end;
extern void (*const init_start[])(void), (*const init_end[])(void);

int main(void);
void reset(void);

__attribute__((used)) static void start(void)
{
  const uint32_t *from = &data_source;
  for (uint32_t *to = &data_start; to < &data_end;) *to++ = *from++;
  for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
  for (void (*const *init)(void) = init_start; init < init_end; ++init) (*init)();
  (void)main();
  for (;;) __asm__ volatile("wfi");
}

/* No section is addressed from gp. */
__attribute__((naked, section(".vectors"))) void reset(void)
{
  __asm__ volatile("la sp, stack_top\n\tj start");
}
