/* Prints docs/kir.md from src/kir/ins.def. */
#include "base/alloc.h"
#include "kir/kir.h"
#include <stdio.h>

int main(void) {
    ls_heap heap;
    ls_heap_init(&heap, NULL, 0);
    ls_text text;
    ls_text_init(&text, &heap);
    ls_kir_print_doc(&text);
    int failed = text.failed || fputs(text.data, stdout) == EOF || fflush(stdout) == EOF;
    ls_text_free(&text);
    return failed;
}
