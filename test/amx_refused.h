/* Makes Linux refuse the tiles of AMX: a signal stack exists that cannot hold them. At the end, the
 * program fails if the process has tiles after all. Included before generated C. */
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef STACK_BYTES
#define STACK_BYTES 8192
#endif

__attribute__((constructor)) static void use_a_small_stack(void)
{
  static char memory[STACK_BYTES];
  const stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
  if (sigaltstack(&stack, 0) != 0) _exit(77);
}

__attribute__((destructor)) static void check_that_tiles_are_refused(void)
{
  unsigned long features = 0;
  if (syscall(SYS_arch_prctl, 0x1022, &features) != 0 || (features >> 18 & 1)) _exit(78);
}
