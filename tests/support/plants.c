#include "support/plants.h"
#include <lockstep/check.h>
#include <stdio.h>
#include <string.h>

typedef struct seen {
    int failed, others;
    char message[LS_MESSAGE_MAX];
} seen;

static void note(void *user, const ls_case_result *r) {
    seen *s = user;
    s->failed += r->state == LS_CASE_FAILED;
    s->others += r->state != LS_CASE_FAILED;
    if (r->state == LS_CASE_FAILED) {
        snprintf(s->message, sizeof s->message, "%s", r->message);
    }
}

/* Where no kernel is at fault, none can be named. */
static bool names_no_kernel(const char *fault) {
    return strcmp(fault, "abort") == 0 || strcmp(fault, "bad-parameters-accepted") == 0;
}

bool plants_caught(world *w, const char *fault, const char *where, bool say) {
    ls_error err = {.code = LS_OK};
    seen s = {0};
    if (ls_museum_run(w->context, w->device, NULL, fault, note, &s, NULL, &err) != LS_OK) {
        fail_msg("%s: %s", fault, err.message);
    }
    bool named = strstr(s.message, w->id) &&
                 (names_no_kernel(fault) || (strstr(s.message, "kernel") && strstr(s.message, "node") &&
                                             strstr(s.message, "expected") && strstr(s.message, "got")));
    bool caught = s.failed == 2 && s.others == 0;
    if (say || !named || !caught) {
        printf("%s %-28s %-24s caught %d of 2%s: %s\n", w->id, fault, where, s.failed, named ? "" : " BUT BADLY NAMED", s.message);
    }
    return named && caught;
}
