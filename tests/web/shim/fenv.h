/* WebAssembly rounds to nearest, always: a mode that a test sets is remembered, and changes nothing. */
#ifndef LOCKSTEP_TESTS_WEB_FENV_H
#define LOCKSTEP_TESTS_WEB_FENV_H

#define FE_TONEAREST 0
#define FE_UPWARD 1
static int shim_rounding;
__attribute__((unused)) static int fesetround(int mode) {
    shim_rounding = mode;
    return 0;
}
__attribute__((unused)) static int fegetround(void) {
    return shim_rounding;
}

#endif
