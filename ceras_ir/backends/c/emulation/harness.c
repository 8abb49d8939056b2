/* Runs the model on samples from in.bin. It writes results to out.bin, then 64 bits for each
 * sample: the ticks of REPEAT runs, and 32 bits: the stack of the runs in bytes. Files are on the
 * host, through semihosting. */
#include <stdint.h>

#include "model.h"
#include "semihosting.h"

@BUFFERS@

/* The words below the stack pointer are filled with a pattern before a run. */
enum { FILLED_WORDS = 4096 };
static const uint32_t pattern = 0x5aa5c33c;
extern uint32_t bss_end;

#define STACK_POINTER(sp) __asm__ volatile("mov %0, sp" : "=r"(sp))

int main(void)
{
  const int in = open_file("in.bin", 6, 1), out = open_file("out.bin", 7, 5);
  if (in < 0 || out < 0) return 3;
  start_systick();
  for (int sample = 0; sample < @SAMPLES@; ++sample) {
    @READ@
    volatile uint32_t *top, *end = (volatile uint32_t *)(((uintptr_t)&bss_end + 3) / 4 * 4);
    STACK_POINTER(top);
    if (top - end > FILLED_WORDS) end = top - FILLED_WORDS;
    for (volatile uint32_t *word = end; word < top; ++word) *word = pattern;
    const uint32_t before = SYSTICK[2];
    for (int i = 0; i < @REPEAT@; ++i) {
      if (model_run(@ARGUMENTS@) != MODEL_OK) return 5;
    }
    uint64_t ticks = (before - SYSTICK[2]) & 0xffffff;
    while (end < top && *end == pattern) ++end;
    uint32_t stack = (uint32_t)(top - end) * 4;
    @WRITE@
    if (transfer(0x05, out, &ticks, sizeof ticks) != 0) return 6;
    if (transfer(0x05, out, &stack, sizeof stack) != 0) return 6;
  }
  return 0;
}
