/* The number of outputs that a small tile computes: 16, or the outputs that vectors of RISC-V hold
 * in four registers. */
#if MODEL_RVV
#include <riscv_vector.h>
#define MODEL_TAKEN(outputs) ((int32_t)__riscv_vsetvl_e32m4((size_t)(outputs)))
#else
#define MODEL_TAKEN(outputs) 16
#endif
