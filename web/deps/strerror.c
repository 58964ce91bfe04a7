/* A page has no files, so no texts for what the system says of them (nor for printf's %m). */
#define _GNU_SOURCE
#include <locale.h>
#include <string.h>

char *strerror(int code) {
    (void)code;
    return (char *)"the system refuses";
}

char *strerror_l(int code, locale_t locale) {
    (void)locale;
    return strerror(code);
}
