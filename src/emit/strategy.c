/* Strategies: which a spec can have, and why not the others.
 *
 * A contraction's template says by itself whether it fits. The others are known by what they leave behind: a lowering by a
 * strategy into a list that is thrown away, in which the strategy's template must have run (emit/cover.def). */
#include "emit/lower.h"
#include <string.h>

#define RAN(id) (UINT32_C(1) << LS_COVER_##id)

static const struct {
    const char *name;
    uint32_t ran; /* one of these; 0: a contraction's */
    const char *reason;
} rows[LS_EMIT_STRATEGIES] = {
    [LS_CHOICE_NAIVE] = {"naive", 0, NULL},
    [LS_CHOICE_TILED] = {"tiled", 0, "the kernel has no contraction"},
    [LS_CHOICE_GEMV] = {"gemv", 0, "the kernel has no contraction"},
    [LS_CHOICE_MATRIX] = {"matrix", 0, "the kernel has no contraction"},
    [LS_CHOICE_QUAD] = {"quad", RAN(QUAD_AXIS) | RAN(QUAD_LINE), "none of its loads and stores is of four neighbours"},
    [LS_CHOICE_TURN] = {"turn", RAN(TURNED), "none of its operands lies across its result in tiles of 32 by 16"},
    [LS_CHOICE_SERIAL] = {"serial", RAN(REDUCE_SERIAL), "the kernel has no reduction"},
    [LS_CHOICE_ROW] = {"row", RAN(ROW_REGISTERS), "the kernel has no reduction whose row fits the registers of a workgroup"},
    [LS_CHOICE_COLUMN] = {"column", RAN(COLUMNS), "the kernel has no reduction whose results lie side by side in memory"},
    [LS_CHOICE_UPDATE] = {"update", RAN(SCATTER_UPDATE), "the kernel has no scatter whose updates can be told apart"},
    [LS_CHOICE_ELEMENT] = {"element", RAN(SCATTER_ELEMENT), "the kernel has no scatter, or one without elements"},
    [LS_CHOICE_FUSED] = {"fused", RAN(ATTENTION), "the kernel is no attention"},
};

static const char *why_no_product(ls_lower *l, ls_choice choice) {
    const ls_spec *spec = l->spec;
    const char *why = rows[choice].reason;
    for (int32_t first = 0; first < spec->n_stores && l->status == LS_OK; first += ls_lower_run(spec, first)) {
        bool sets = spec->stores[first].combine == LS_STORE_SET && spec->stores[first].check == LS_SPEC_NONE;
        why = sets ? ls_lower_contraction(l, first, ls_lower_run(spec, first), choice, true) : "it stands in a scatter";
        if (!why) {
            break;
        }
    }
    return why;
}

static const char *why_not(ls_lower *l, ls_choice choice) {
    ls_kernel_list list = {0};
    ls_lower trial;
    ls_error err = {.code = LS_OK};
    if (choice == LS_CHOICE_NAIVE) {
        return NULL;
    }
    if (choice == LS_CHOICE_FUSED) {
        return ls_lower_attention(l, true);
    }
    if (choice <= LS_CHOICE_MATRIX) {
        return why_no_product(l, choice);
    }
    ls_status status = ls_lower_start(&trial, l->arena, l->spec, l->caps, &list, &err);
    trial.choice = choice;
    status = status == LS_OK ? ls_lower_spec(&trial) : status;
    if (status == LS_ERR_MEMORY) {
        l->status = LS_FAIL_MEMORY(l->err, "trying a strategy");
    }
    return status == LS_OK && (list.cover & rows[choice].ran) ? NULL : rows[choice].reason;
}

ls_status ls_emit_strategies(ls_arena *arena, const ls_spec *spec, const ls_emit_caps *caps,
                             ls_emit_strategy out_strategies[LS_EMIT_STRATEGIES], ls_error *err) {
    ls_kernel_list list = {0};
    ls_lower l;
    LS_TRY(err, ls_lower_start(&l, arena, spec, caps, &list, err));
    for (int i = 0; i < LS_EMIT_STRATEGIES; i++) {
        out_strategies[i] = (ls_emit_strategy){rows[i].name, l.status == LS_OK ? why_not(&l, (ls_choice)i) : NULL};
    }
    return l.status == LS_OK ? LS_OK : LS_FORWARD(err, l.status);
}

/* By tiles or fragments, whose operands are read through index maps. */
static ls_status choose_implicit(ls_lower *l) {
    static const ls_choice order[] = {LS_CHOICE_MATRIX, LS_CHOICE_TILED, LS_CHOICE_GEMV};
    const char *why = NULL;
    for (int i = 0; i < 3 && l->status == LS_OK; i++) {
        const char *own = why_not(l, order[i]);
        if (!own) {
            l->choice = order[i];
            return l->status;
        }
        why = order[i] == LS_CHOICE_TILED ? own : why;
    }
    return l->status != LS_OK ? l->status
                              : LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s: strategy implicit: %s", l->spec->name, why);
}

ls_status ls_lower_choose(ls_lower *l, const char *name) {
    if (strcmp(name, "implicit") == 0) {
        return choose_implicit(l);
    }
    for (int i = 0; i < LS_EMIT_STRATEGIES; i++) {
        if (strcmp(rows[i].name, name) == 0) {
            const char *why = why_not(l, (ls_choice)i);
            l->choice = (ls_choice)i;
            return l->status != LS_OK ? l->status
                   : why              ? LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s: strategy %s: %s", l->spec->name,
                                                name, why)
                                      : LS_OK;
        }
    }
    return LS_FAIL(l->err, LS_ERR_UNSUPPORTED, "emit: kernel %s: there is no strategy \"%s\"", l->spec->name, name);
}
