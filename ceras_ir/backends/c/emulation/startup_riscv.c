/* Reset of a 32-bit RISC-V without an operating system: initialize memory, then call main. */
#include "prepare_memory.h"

int main(void);
void reset(void);

__attribute__((used)) static void start(void)
{
  prepare_memory();
  (void)main();
  for (;;) __asm__ volatile("wfi");
}

/* No section is addressed from gp. */
__attribute__((naked, section(".vectors"))) void reset(void)
{
  __asm__ volatile("la sp, stack_top\n\tj start");
}
