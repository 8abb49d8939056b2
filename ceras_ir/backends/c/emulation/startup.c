/* Reset of a Cortex-M and semihosting: enough to run a program bare, on a board or under qemu. */
#include <stdint.h>

#include "semihosting.h"

extern uint32_t stack_top, data_source, data_start, data_end, bss_start, bss_end;
extern void (*const init_start[])(void), (*const init_end[])(void);

int main(void);
void reset(void);
void fault(void);

int semihosting(int operation, const void *argument)
{
  register int r0 __asm__("r0") = operation;
  register const void *r1 __asm__("r1") = argument;
  __asm__ volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

void leave(int status)
{
  const uint32_t block[2] = {0x20026 /* application exit */, (uint32_t)status};
  for (;;) semihosting(0x20 /* SYS_EXIT_EXTENDED */, block);
}

void fault(void) { leave(70); }

void reset(void)
{
  *(volatile uint32_t *)0xe000ed88 |= 0xfu << 20; /* CPACR: the floating-point unit */
  __asm__ volatile("dsb\n\tisb");
  const uint32_t *from = &data_source;
  for (uint32_t *to = &data_start; to < &data_end;) *to++ = *from++;
  for (uint32_t *to = &bss_start; to < &bss_end;) *to++ = 0;
  for (void (*const *init)(void) = init_start; init < init_end; ++init) (*init)();
  leave(main());
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
  &stack_top, (const void *)reset, (const void *)fault, (const void *)fault,
  (const void *)fault, (const void *)fault, (const void *)fault,
};
