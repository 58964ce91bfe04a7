/* Devices by UUID: what stays the same when other devices come, go or change places. */
#include "device/device.h"
#include <string.h>

static const char digits[] = "0123456789abcdef";

void ls_uuid_write(const uint8_t uuid[16], char out_text[37]) {
    size_t at = 0;
    int any = 0;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10) {
            out_text[at++] = '-';
        }
        out_text[at++] = digits[uuid[i] >> 4];
        out_text[at++] = digits[uuid[i] & 15];
        any |= uuid[i];
    }
    out_text[any ? at : 0] = 0;
}

/* The next digit, in small letters; 0 at the end. */
static char digit_of(const char **text) {
    while (**text == '-') {
        (*text)++;
    }
    char c = **text;
    *text += c != 0;
    return c >= 'A' && c <= 'F' ? (char)(c - 'A' + 'a') : c;
}

bool ls_uuid_valid(const char *prefix) {
    int n = 0;
    for (char c; (c = digit_of(&prefix)) != 0; n++) {
        if (!strchr(digits, c)) {
            return false;
        }
    }
    return n >= 4 && n <= 32;
}

bool ls_uuid_matches(const char *prefix, const char *uuid) {
    if (!uuid[0]) {
        return false;
    }
    for (char c; (c = digit_of(&prefix)) != 0;) {
        if (c != digit_of(&uuid)) {
            return false;
        }
    }
    return true;
}
