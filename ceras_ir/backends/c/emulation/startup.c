/* Reset of a Cortex-M and semihosting, sufficient to run a program on a board or under qemu. */
#include <stdint.h>

#include "prepare_memory.h"
#include "semihosting.h"

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
  prepare_memory();
  leave(main());
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
  &stack_top, (const void *)reset, (const void *)fault, (const void *)fault,
  (const void *)fault, (const void *)fault, (const void *)fault,
};
