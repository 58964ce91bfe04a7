/* Random graphs with random assignments: computed at once, with all that the engine does about order,
 * memory and in-place writes, they must give the bits that they give node by node, where none of that
 * happens. */
#include "engine/exec.h"
#include "support/world.h"
#include <string.h>

enum { VARS = 3, POOL = 24, SIDE = 4, CELLS = SIDE * SIDE, GRAPHS = 100 };

static uint32_t seed;

static int pick(int n) {
    seed = seed * 1664525u + 1013904223u;
    return (int)((seed >> 10) % (uint32_t)n);
}

static ls_status loop_body(ls_session *s, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                           ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)iteration;
    ls_tensor *row = ls_add(s, xs[0], ls_sum(s, carry[1], 1, (int[]){0}, 0));
    out_carry[0] = carry[1];
    out_carry[1] = ls_max(s, ls_sub(s, carry[0], row), ctx);
    out_ys[0] = ls_mul(s, row, row);
    return LS_OK;
}

/* One more matrix from those that there are. */
static ls_tensor *grow(ls_session *s, ls_tensor *const *pool, int n) {
    ls_tensor *a = pool[pick(n)], *b = pool[pick(n)], *half = ls_full(s, LS_F32, LS_SCALAR, 0.5),
              *pair[2] = {a, b}, *out[2], *ys;
    switch (pick(12)) {
    case 0:
        return ls_add(s, a, b);
    case 1:
        return ls_mul(s, ls_mul(s, a, half), b);
    case 2:
        return ls_max(s, a, ls_neg(s, b));
    case 3:
        return ls_transpose(s, a, 0, 1);
    case 4:
        return ls_sub(s, ls_flip(s, a, pick(2)), b);
    case 5:
        return ls_mul(s, half, ls_matmul(s, a, b));
    case 6:
        return ls_sub(s, a, ls_mean(s, b, 1, (int[]){pick(2)}, 1));
    case 7:
        return ls_softmax(s, a, pick(2));
    case 8:
        return ls_reshape(s, ls_narrow(s, ls_concat(s, pair, 2, 0), 0, 1 + pick(3), SIDE),
                          LS_SHAPE(SIDE, SIDE));
    case 9:
        return ls_scan(s, a, LS_SCAN_MAX, pick(2), 0, pick(2));
    case 10:
        if (ls_loop(s, ls_dim_of(SIDE), 2, pair, 1, &a, 1, loop_body, b, out, &ys) != LS_OK) {
            return NULL;
        }
        return pick(2) ? ys : out[pick(2)];
    default:
        return ls_sort(s, a, pick(2), 0);
    }
}

typedef struct outcome {
    float vars[VARS][CELLS], outputs[4][CELLS];
} outcome;

typedef enum way { NODE_BY_NODE, AT_ONCE, UNFUSED, PROGRAM, WAYS } way;

static ls_status compute(ls_session *s, way w, ls_tensor **outputs, outcome *out) {
    if (w != PROGRAM) {
        ls_status status = ls_realize(s, outputs, 4);
        for (int i = 0; status == LS_OK && i < 4; i++) {
            status = ls_read(s, outputs[i], out->outputs[i], sizeof out->outputs[i]);
        }
        return status;
    }
    ls_program *p;
    ls_status status = ls_program_compile(s, NULL, 0, outputs, 4, &p);
    if (status == LS_OK) {
        void *to[] = {out->outputs[0], out->outputs[1], out->outputs[2], out->outputs[3]};
        status = ls_program_run(p, NULL, to);
        ls_program_destroy(p);
    }
    return status;
}

static void run(const char *device, uint32_t number, way how, outcome *out) {
    world w = world_open(device);
    ls_session *s = w.session;
    ls_var *vars[VARS];
    ls_tensor *pool[POOL], *outputs[4];
    seed = number;
    memset(out, 0, sizeof *out);
    ls_session_set_fusion(s, how != UNFUSED);
    for (int i = 0; i < VARS; i++) {
        float data[CELLS];
        for (int j = 0; j < CELLS; j++) {
            data[j] = (float)pick(201) * 0.01f - 1;
        }
        vars[i] = ls_var_create(s, "v", LS_F32, LS_SHAPE(SIDE, SIDE), data);
        pool[i] = ls_var_value(s, vars[i]);
    }
    for (int i = VARS; i < POOL; i++) {
        pool[i] = grow(s, pool, i);
        if (how == NODE_BY_NODE) {
            world_ok(&w, ls_realize(s, &pool[i], 1));
        }
    }
    for (int i = 0; i < VARS; i++) {
        if (pick(4)) {
            world_ok(&w, ls_var_assign(s, vars[i], pool[pick(3) ? POOL - 1 - pick(8) : pick(VARS)]));
        }
    }
    for (int i = 0; i < 4; i++) {
        outputs[i] = pool[pick(POOL)];
    }
    world_ok(&w, compute(s, how, outputs, out));
    for (int i = 0; i < VARS; i++) {
        world_ok(&w, ls_var_read(s, vars[i], out->vars[i], sizeof out->vars[i]));
    }
    world_close(&w);
}

static void same_bits(const char *device) {
    for (uint32_t number = 1; number <= GRAPHS; number++) {
        static outcome expected, got;
        run("ref", number, NODE_BY_NODE, &expected);
        for (way how = NODE_BY_NODE; how < WAYS; how++) {
            run(device, number, how, &got);
            if (memcmp(&expected, &got, sizeof got) != 0) {
                fail_msg("graph %u on %s, way %d", number, device, (int)how);
            }
        }
    }
}

static void on_ref(void **state) {
    (void)state;
    same_bits("ref");
}

static void on_cpu(void **state) {
    (void)state;
    same_bits("cpu");
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(on_ref), cmocka_unit_test(on_cpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
