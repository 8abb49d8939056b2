/* Float operations round one by one, in the order of the source. Stop a build that permits other
 * results, and switch off permissions that no macro shows. */
#include <float.h>
#if defined(__FAST_MATH__) || defined(_M_FP_FAST)
#error "compile without -ffast-math, -Ofast or /fp:fast: it changes float results"
#elif defined(__ASSOCIATIVE_MATH__)
#error "compile without -fassociative-math (-funsafe-math-optimizations): it reorders sums"
#elif defined(__RECIPROCAL_MATH__)
#error "compile without -freciprocal-math: it changes quotients"
#elif defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__
#error "compile without -ffinite-math-only: it changes comparisons with infinity and NaN"
#elif defined(__NO_SIGNED_ZEROS__)
#error "compile without -fno-signed-zeros: it changes signs of zeros"
#endif
#if defined(FLT_EVAL_METHOD) && (FLT_EVAL_METHOD == 1 || FLT_EVAL_METHOD == 2)
#if defined(__i386__)
#error "float is computed in a wider type; compile with -msse2 -mfpmath=sse"
#else
#error "float is computed in a wider type; compile so that FLT_EVAL_METHOD is 0"
#endif
#endif
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wunknown-pragmas"
/* 32-bit Arm ignores float_control. */
#pragma clang diagnostic ignored "-Wignored-pragmas"
#pragma float_control(precise, on)
#if __clang_major__ >= 14
#pragma clang fp reassociate(off)
#endif
#if __clang_major__ >= 18
#pragma clang fp reciprocal(off)
#endif
#pragma STDC FP_CONTRACT OFF
#pragma clang diagnostic pop
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif
