/* The host-numerics guard. x87 state is left alone: the library computes with SSE registers only. */
#include "base/numerics.h"

#if defined(__SSE__)
#include <xmmintrin.h>

ls_numerics ls_numerics_enter(void) {
    ls_numerics state = {_mm_getcsr()};
    _mm_setcsr(0x1f80); /* all masked, nearest even, no FTZ, no DAZ, flags clear */
    return state;
}

void ls_numerics_leave(ls_numerics state) {
    _mm_setcsr((unsigned)state.saved);
}

#elif defined(__aarch64__)

ls_numerics ls_numerics_enter(void) {
    uint64_t control, flags;
    __asm__ volatile("mrs %0, fpcr" : "=r"(control));
    __asm__ volatile("mrs %0, fpsr" : "=r"(flags));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0) : "memory");
    return (ls_numerics){(control & 0xffffffffu) | flags << 32};
}

void ls_numerics_leave(ls_numerics state) {
    __asm__ volatile("msr fpcr, %0" : : "r"(state.saved & 0xffffffffu) : "memory");
    __asm__ volatile("msr fpsr, %0" : : "r"(state.saved >> 32) : "memory");
}

#else /* WebAssembly, for one, has no such state */

ls_numerics ls_numerics_enter(void) {
    return (ls_numerics){0};
}

void ls_numerics_leave(ls_numerics state) {
    (void)state;
}

#endif
