/* A page's module has no use for sums in lanes: it reads and writes the plain ones. */
#include "base/sha256.h"

bool ls_sha256_lanes_pay(void) {
    return false;
}

bool ls_sha256_lanes(ls_sha256_way way, const void *data, size_t size, char out_hex[65]) {
    (void)way, (void)data, (void)size, (void)out_hex;
    return false;
}
