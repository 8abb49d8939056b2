/* Calls of startup.c to the debugger, or to qemu, which opens files on the host. */
#ifndef SEMIHOSTING_H
#define SEMIHOSTING_H

#include <stdint.h>

/* The timer of a Cortex-M: control, reload value and current value, which counts down. */
#define SYSTICK ((volatile uint32_t *)0xe000e010)

#ifdef __cplusplus
extern "C" {
#endif
int semihosting(int operation, const void *argument);
void leave(int status);
#ifdef __cplusplus
}
#endif

static inline int open_file(const char *path, uint32_t length, uint32_t mode)
{
  const uint32_t block[3] = {(uint32_t)(uintptr_t)path, mode, length};
  return semihosting(0x01 /* SYS_OPEN */, block);
}

/* Read (0x06) or write (0x05) a file, and return the number of bytes that are missing. */
static inline int transfer(int operation, int file, void *data, uint32_t bytes)
{
  const uint32_t block[3] = {(uint32_t)file, (uint32_t)(uintptr_t)data, bytes};
  return semihosting(operation, block);
}

static inline void start_systick(void)
{
  SYSTICK[1] = 0xffffff;
  SYSTICK[2] = 0;
  SYSTICK[0] = 5; /* enabled, at the clock of the core */
}

#endif
