/* The names of strategies, and forcing one. */
#include "engine/session.h"
#include <stdio.h>
#include <string.h>

enum { MOST = 6 };

static const struct {
    const char *name, *also;
    const char *strategies[MOST];
} kinds[LS_STRATEGY_KINDS] = {
    [LS_GROUP_POINTWISE] = {"pointwise", NULL, {"naive", "quad", "turn"}},
    [LS_GROUP_REDUCE] = {"reduce", NULL, {"naive", "serial", "row", "column"}},
    [LS_GROUP_CONTRACT] = {"contract", "matmul", {"naive", "tiled", "gemv", "matrix", "vendor"}},
    [LS_GROUP_SCAN] = {"scan", NULL, {"naive"}},
    [LS_GROUP_SORT] = {"sort", NULL, {"naive"}},
    [LS_GROUP_SCATTER] = {"scatter", NULL, {"naive", "update", "element"}},
    [LS_STRATEGY_CONV] = {"conv", NULL, {"direct", "implicit", "im2col"}},
    [LS_GROUP_ATTENTION] = {"attention", NULL, {"composite", "fused"}},
};

const char *const *ls_strategy_names(int kind) {
    return kinds[kind].strategies;
}

/* "a, b or c", as far as there is room. */
static void add_name(char *list, size_t room, const char *name, bool first, bool last) {
    size_t at = strlen(list);
    snprintf(list + at, room - at, "%s%s", first ? "" : last ? " or " : ", ", name);
}

static ls_status no_kind(ls_session *session, const char *kind) {
    ls_error err = {0};
    char known[160] = "";
    for (int i = 0; i < LS_STRATEGY_KINDS; i++) {
        if (kinds[i].name) {
            add_name(known, sizeof known, kinds[i].name, !known[0], i + 1 == LS_STRATEGY_KINDS);
        }
    }
    LS_FAIL(&err, LS_ERR_INVALID, "no strategies are for \"%.64s\": expected %s", kind ? kind : "(null)", known);
    return ls_session_fail(session, LS_ERR_INVALID, &err);
}

static ls_status no_strategy(ls_session *session, int kind, const char *strategy) {
    ls_error err = {0};
    char known[160] = "";
    for (int i = 0; kinds[kind].strategies[i]; i++) {
        add_name(known, sizeof known, kinds[kind].strategies[i], i == 0, !kinds[kind].strategies[i + 1]);
    }
    LS_FAIL(&err, LS_ERR_INVALID, "no strategy of %s is called \"%.64s\": expected %s", kinds[kind].name, strategy, known);
    return ls_session_fail(session, LS_ERR_INVALID, &err);
}

ls_status ls_session_set_strategy(ls_session *session, const char *kind, const char *strategy) {
    int at = 0;
    while (at < LS_STRATEGY_KINDS && !(kind && kinds[at].name &&
                                       (strcmp(kind, kinds[at].name) == 0 || (kinds[at].also && strcmp(kind, kinds[at].also) == 0)))) {
        at++;
    }
    if (at == LS_STRATEGY_KINDS) {
        return no_kind(session, kind);
    }
    const char *const *name = kinds[at].strategies;
    while (strategy && *name && strcmp(*name, strategy) != 0) {
        name++;
    }
    if (strategy && !*name) {
        return no_strategy(session, at, strategy);
    }
    memset(session->strategies[at], 0, LS_STRATEGY_MAX); /* whole: it is part of keys */
    memcpy(session->strategies[at], strategy ? strategy : "", strategy ? strlen(strategy) : 0);
    return LS_OK;
}
