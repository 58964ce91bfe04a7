/* A page's module has no instructions for it: it reads and writes the SHA-256. */
#include "base/crc.h"

bool ls_crc_instructions(void) {
    return false;
}

bool ls_crc_lanes(bool portable, const void *data, size_t size, char out_hex[LS_CRC_HEX]) {
    (void)portable, (void)data, (void)size, (void)out_hex;
    return false;
}
