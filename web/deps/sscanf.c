/* The sscanf that cJSON is compiled with: one number (%lg), which strtod reads without the two kilobytes of the real one. */
#include <stdarg.h>
#include <stdlib.h>

int lockstep_sscanf(const char *text, const char *format, ...);
int lockstep_sscanf(const char *text, const char *format, ...) {
    char *end;
    va_list arguments;
    va_start(arguments, format);
    *va_arg(arguments, double *) = strtod(text, &end);
    va_end(arguments);
    return end != text;
}
