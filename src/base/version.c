/* The version of the built library. */
#include <lockstep/version.h>

const char *ls_version(void) {
    return LS_VERSION;
}
