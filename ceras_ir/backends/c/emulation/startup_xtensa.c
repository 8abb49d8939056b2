/* Reset of an Xtensa without an operating system: initialize memory, then call main. */
#include "prepare_memory.h"

int main(void);

__attribute__((used)) static void start(void)
{
  prepare_memory();
  (void)main();
  for (;;) __asm__ volatile("");
}

/* l32r loads words at lower addresses. */
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
