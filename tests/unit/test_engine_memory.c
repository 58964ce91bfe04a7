/* The memory plan, and the hazard checker that must catch every way of spoiling it. */
#include "engine/exec.h"
#include "support/world.h"
#include <lockstep/inspect.h>
#include <string.h>

static world w;
static ls_session *s;

static int setup(void **state) {
    (void)state;
    w = world_open("null"); /* it compiles, and that is all these tests need */
    s = w.session;
    return 0;
}

static int teardown(void **state) {
    (void)state;
    world_close(&w);
    return 0;
}

/* ---- the plan ---- */

static uint32_t next_random(uint32_t *seed) {
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Lifetimes that meet must not overlap, gaps included; and the arena is no larger than the sum of all. */
static void plans_never_overlap(void **state) {
    (void)state;
    enum { N = 60 };
    ls_error err = {0};
    uint32_t seed = 1;
    for (int round = 0; round < 50; round++) {
        ls_memory_item items[N];
        ls_arena arena;
        size_t bytes, sum = 0, live_most = 0;
        int n = 1 + (int)(next_random(&seed) % N);
        for (int i = 0; i < n; i++) {
            int first = (int)(next_random(&seed) % 40);
            items[i] = (ls_memory_item){.bytes = next_random(&seed) % 3000,
                                        .first = first,
                                        .last = first + (int)(next_random(&seed) % 10)};
            sum += items[i].bytes + LS_MEMORY_GAP + LS_MEMORY_ALIGN;
        }
        ls_arena_init(&arena, &w.context->heap);
        assert_int_equal(ls_memory_plan(&arena, items, n, &bytes, &err), LS_OK);
        ls_arena_free(&arena);
        assert_true(bytes <= sum);
        for (int i = 0; i < n; i++) {
            assert_int_equal(items[i].offset % LS_MEMORY_ALIGN, 0);
            assert_true(items[i].offset + items[i].bytes + LS_MEMORY_GAP <= bytes);
            for (int j = 0; j < i; j++) {
                bool meet = items[i].first <= items[j].last && items[j].first <= items[i].last;
                bool apart = items[i].offset + items[i].bytes + LS_MEMORY_GAP <= items[j].offset ||
                             items[j].offset + items[j].bytes + LS_MEMORY_GAP <= items[i].offset;
                assert_true(!meet || apart);
            }
        }
        for (int t = 0; t < 50; t++) {
            size_t live = 0;
            for (int i = 0; i < n; i++) {
                live += items[i].first <= t && t <= items[i].last ? items[i].bytes : 0;
            }
            live_most = live > live_most ? live : live_most;
        }
        assert_true(bytes >= live_most);
    }
}

static void a_chain_needs_two_buffers(void **state) {
    (void)state;
    ls_memory_item items[10];
    ls_error err = {0};
    ls_arena arena;
    size_t bytes;
    for (int i = 0; i < 10; i++) {
        items[i] = (ls_memory_item){.bytes = 1 << 20, .first = i, .last = i + 1};
    }
    ls_arena_init(&arena, &w.context->heap);
    assert_int_equal(ls_memory_plan(&arena, items, 10, &bytes, &err), LS_OK);
    ls_arena_free(&arena);
    assert_int_equal(bytes, 2 * ((1 << 20) + LS_MEMORY_ALIGN));
}

/* ---- compiled graphs ---- */

static ls_exec *compile(ls_tensor *const *roots, int n) {
    ls_graph_key key;
    ls_exec *exec;
    ls_error err = {0};
    world_ok(&w, ls_session_sync(s, &err));
    world_ok(&w, ls_graph_key_make(s, roots, n, s->pending.data, (int)s->pending.len, &key, &err));
    ls_status status = ls_exec_compile(s, &key, roots, n, s->pending.data, (int)s->pending.len, &exec, &err);
    if (status != LS_OK) {
        fail_msg("%s", err.message);
    }
    ls_graph_key_free(s, &key);
    return exec;
}

/* Layers of a network, each materialised, with two uses of some: temporaries of several lifetimes. */
static ls_exec *network(void) {
    static float data[64 * 64];
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(64, 64), data), *first = NULL;
    for (int i = 0; i < 5; i++) {
        ls_tensor *weights = ls_tensor_from(s, LS_F32, LS_SHAPE(64, 64), data);
        x = ls_relu(s, ls_matmul(s, x, weights));
        first = first ? first : x;
    }
    ls_tensor *roots[] = {ls_sum(s, ls_matmul(s, x, first), 0, NULL, 0), x};
    return compile(roots, 2);
}

static void expect_hazard(ls_exec *exec, const char *what) {
    ls_error err = {0};
    assert_int_equal(ls_hazard_check(exec, &err), LS_ERR_INTERNAL);
    if (!strstr(err.message, what)) {
        fail_msg("expected \"%s\" in: %s", what, err.message);
    }
}

static void expect_none(ls_exec *exec) {
    ls_error err = {0};
    if (ls_hazard_check(exec, &err) != LS_OK) {
        fail_msg("%s", err.message);
    }
}

static ls_step *writer_of_temporary(ls_exec *exec, int skip) {
    for (int i = 0; i < exec->block.n_steps; i++) {
        ls_step *step = &exec->block.steps[i];
        if (step->kind == LS_STEP_KERNEL && !step->vals[step->n_reads]->fixed && skip-- == 0) {
            return step;
        }
    }
    fail_msg("no temporary");
    return NULL;
}

static void memory_is_shared(void **state) {
    (void)state;
    ls_exec *exec = network();
    size_t separate = 0;
    for (int i = 0; i < exec->block.n_vals; i++) {
        separate += exec->block.vals[i]->fixed ? 0 : exec->block.vals[i]->bytes;
    }
    assert_int_equal(exec->block.n_arenas, 1);
    assert_true(exec->block.arenas[0].bytes < separate);
    expect_none(exec);
    ls_exec_free(exec);
}

/* Every place of every step moved onto every other place: either it is the same value's, or the checker
 * objects. */
static void every_moved_result_is_caught(void **state) {
    (void)state;
    ls_exec *exec = network();
    int caught = 0;
    for (int i = 0; i < exec->block.n_steps; i++) {
        ls_step *step = &exec->block.steps[i];
        for (int a = 0; a < step->n_args; a++) {
            for (int j = 0; j < exec->block.n_steps; j++) {
                const ls_step *other = &exec->block.steps[j];
                for (int b = 0; b < other->n_args; b++) {
                    ls_place mine = step->args[a], theirs = other->args[b];
                    if (theirs.bind == mine.bind && theirs.offset == mine.offset) {
                        continue;
                    }
                    step->args[a] = theirs;
                    ls_error err = {0};
                    assert_int_equal(ls_hazard_check(exec, &err), LS_ERR_INTERNAL);
                    caught++;
                    step->args[a] = mine;
                }
            }
        }
    }
    assert_true(caught > 100);
    expect_none(exec);
    ls_exec_free(exec);
}

static void overlaps_by_one_alignment_are_caught(void **state) {
    (void)state;
    ls_exec *exec = network();
    ls_step *step = writer_of_temporary(exec, 1);
    ls_place right = step->args[step->n_reads];
    for (int skip = 0; skip < 2; skip++) {
        const ls_step *other = writer_of_temporary(exec, 2 * skip);
        step->args[step->n_reads].offset = other->args[other->n_reads].offset + LS_MEMORY_ALIGN;
        ls_error err = {0};
        assert_int_equal(ls_hazard_check(exec, &err), LS_ERR_INTERNAL);
        step->args[step->n_reads] = right;
    }
    step->args[step->n_reads].offset = exec->block.arenas[0].bytes - 4;
    expect_hazard(exec, "outside its buffer");
    ls_exec_free(exec);
}

static void every_swap_of_steps_is_caught(void **state) {
    (void)state;
    ls_exec *exec = network();
    int n = exec->block.n_steps;
    for (int i = 0; i + 1 < n; i++) { /* a chain: each step reads the one before */
        ls_step first = exec->block.steps[i];
        exec->block.steps[i] = exec->block.steps[i + 1];
        exec->block.steps[i + 1] = first;
        ls_error err = {0};
        assert_int_equal(ls_hazard_check(exec, &err), LS_ERR_INTERNAL);
        exec->block.steps[i + 1] = exec->block.steps[i];
        exec->block.steps[i] = first;
    }
    expect_none(exec);
    exec->block.n_steps--;
    expect_hazard(exec, "root");
    ls_exec_free(exec);
}

static ls_exec *update(ls_var **out_var) {
    static float data[16];
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(4, 4), data);
    ls_tensor *old = ls_var_value(s, v), *x = ls_tensor_from(s, LS_F32, LS_SHAPE(4, 4), data);
    ls_tensor *y = ls_matmul(s, x, old);
    world_ok(&w, ls_var_assign(s, v, ls_add(s, old, y)));
    ls_tensor *roots[] = {ls_matmul(s, y, old)};
    *out_var = v;
    return compile(roots, 1);
}

/* The old value of a variable must be read by all before it is written. */
static void writes_before_reads_are_caught(void **state) {
    (void)state;
    ls_var *v;
    ls_exec *exec = update(&v);
    expect_none(exec);
    int written = exec->assigns[0].bind, writer = -1;
    for (int i = 0; i < exec->block.n_steps; i++) {
        ls_step *step = &exec->block.steps[i];
        writer = step->args[step->n_args - 1].bind == written ? i : writer;
    }
    assert_true(writer > 0);
    ls_step step = exec->block.steps[writer];
    for (int i = writer; i > 1; i--) {
        exec->block.steps[i] = exec->block.steps[i - 1];
    }
    exec->block.steps[1] = step;
    if (writer > 1) {
        ls_error err = {0};
        assert_int_equal(ls_hazard_check(exec, &err), LS_ERR_INTERNAL);
    }
    ls_exec_free(exec);
    /* And a write to a variable that nobody assigned. */
    ls_session_clear_pending(s);
    exec = update(&v);
    exec->n_assigns = 0;
    expect_hazard(exec, "overwritten");
    ls_exec_free(exec);
    ls_session_clear_pending(s);
}

/* x = reverse(x) done in place: the places overlap exactly, but points read each other's elements. */
static void in_place_by_other_elements_is_caught(void **state) {
    (void)state;
    static float data[4];
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(4), data);
    world_ok(&w, ls_var_assign(s, v, ls_flip(s, ls_var_value(s, v), 0)));
    ls_exec *exec = compile(NULL, 0);
    expect_none(exec);
    assert_int_equal(exec->block.n_steps, 2); /* into a temporary, and copied */
    ls_step *kernel = &exec->block.steps[0];
    assert_false(ls_memory_may_alias(kernel->spec, 0, 1, true));
    kernel->args[1] = exec->block.steps[1].args[1];
    exec->block.n_steps = 1;
    expect_hazard(exec, "reads elsewhere");
    ls_exec_free(exec);
}

static ls_exec *assigned(ls_var *v, ls_tensor *value) {
    world_ok(&w, ls_var_assign(s, v, value));
    ls_exec *exec = compile(NULL, 0);
    expect_none(exec);
    return exec;
}

/* A contraction's result replaces what its epilogue alone reads, and nothing that is summed. */
static void contractions_update_in_place(void **state) {
    (void)state;
    static float data[16];
    ls_var *v = ls_var_create(s, "v", LS_F32, LS_SHAPE(4, 4), data);
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(4, 4), data), *old = ls_var_value(s, v);
    w.device->fused_updates = true;
    ls_exec *exec = assigned(v, ls_sub(s, old, ls_matmul(s, x, ls_add(s, x, x))));
    ls_step *last = &exec->block.steps[exec->block.n_steps - 1];
    assert_true(last->kind == LS_STEP_KERNEL && last->args[last->n_args - 1].bind == exec->assigns[0].bind);
    last->device->fused_updates = false; /* what other devices may not */
    expect_hazard(exec, "reads elsewhere");
    last->device->fused_updates = true;
    ls_exec_free(exec);
    ls_session_clear_pending(s);
    exec = assigned(v, ls_sub(s, old, ls_matmul(s, x, old)));
    last = &exec->block.steps[exec->block.n_steps - 1];
    assert_true(last->kind == LS_STEP_COPY); /* computed elsewhere */
    exec->block.steps[exec->block.n_steps - 2].args[last[-1].n_args - 1] = last->args[1];
    exec->block.n_steps--;
    expect_hazard(exec, "reads elsewhere");
    ls_exec_free(exec);
    ls_session_clear_pending(s);
}

/* Of two results that one kernel stores, the later must not be computed from what the earlier replaces. */
static void two_updates_in_one_kernel(void **state) {
    (void)state;
    enum { N = 1000 };
    static float a0[N], b0[N], a[N], b[N];
    world cpu = world_open("cpu");
    ls_session *on = cpu.session;
    for (int swap = 0; swap < 2; swap++) {
        for (int i = 0; i < N; i++) {
            a0[i] = (float)(i % 17), b0[i] = (float)(i % 29);
        }
        ls_var *va = ls_var_create(on, "a", LS_F32, LS_SHAPE(N), a0), *vb = ls_var_create(on, "b", LS_F32, LS_SHAPE(N), b0);
        for (int round = 0; round < 3; round++) {
            ls_tensor *x = ls_var_value(on, va), *y = ls_var_value(on, vb), *sum = ls_add(on, x, y), *mean = ls_mul(on, sum, sum);
            world_ok(&cpu, ls_var_assign(on, swap ? vb : va, ls_sub(on, sum, ls_full(on, LS_F32, LS_SCALAR, 1))));
            world_ok(&cpu, ls_var_assign(on, swap ? va : vb, ls_sub(on, mean, x)));
            world_ok(&cpu, ls_realize(on, NULL, 0));
            for (int i = 0; i < N; i++) {
                float total = a0[i] + b0[i], first = total - 1, second = total * total - a0[i];
                a0[i] = swap ? second : first;
                b0[i] = swap ? first : second;
            }
            world_ok(&cpu, ls_var_read(on, va, a, sizeof a));
            world_ok(&cpu, ls_var_read(on, vb, b, sizeof b));
            assert_memory_equal(a, a0, sizeof a);
            assert_memory_equal(b, b0, sizeof b);
        }
        ls_var_destroy(va);
        ls_var_destroy(vb);
    }
    world_close(&cpu);
}

static ls_status step_body(ls_session *session, void *ctx, ls_tensor *iteration, ls_tensor *const *carry,
                           ls_tensor *const *xs, ls_tensor **out_carry, ls_tensor **out_ys) {
    (void)iteration;
    ls_tensor *y = ls_matmul(session, carry[0], ctx);
    out_carry[0] =
        ls_add(session, ls_matmul(session, ls_matmul(session, y, y), y), xs[0]); /* with a temporary */
    out_carry[1] = carry[0];
    out_ys[0] = y;
    return LS_OK;
}

static void faults_in_loops_are_caught(void **state) {
    (void)state;
    static float data[6 * 16];
    ls_tensor *carry[] = {ls_tensor_from(s, LS_F32, LS_SHAPE(4, 4), data),
                          ls_tensor_from(s, LS_F32, LS_SHAPE(4, 4), data)};
    ls_tensor *xs = ls_tensor_from(s, LS_F32, LS_SHAPE(6, 4, 4), data),
              *weights = ls_tensor_from(s, LS_F32, LS_SHAPE(4, 4), data);
    ls_tensor *out[2], *ys;
    world_ok(&w, ls_loop(s, ls_dim_of(6), 2, carry, 1, &xs, 1, step_body, weights, out, &ys));
    ls_tensor *roots[] = {ls_neg(s, out[0]), ls_neg(s, ls_add(s, out[1], out[0])), ys};
    ls_exec *exec = compile(roots, 3);
    expect_none(exec);
    ls_step *loop = NULL;
    for (int i = 0; i < exec->block.n_steps; i++) {
        loop = exec->block.steps[i].kind == LS_STEP_LOOP ? &exec->block.steps[i] : loop;
    }
    assert_non_null(loop);
    /* Any two of its buffers in one place. */
    for (int i = loop->n_reads; i < loop->n_args; i++) {
        for (int j = 0; j < loop->n_args; j++) {
            if (i != j && loop->args[j].bind >= 0) {
                ls_place right = loop->args[i];
                loop->args[i] = loop->args[j];
                ls_error err = {0};
                assert_int_equal(ls_hazard_check(exec, &err), LS_ERR_INTERNAL);
                loop->args[i] = right;
            }
        }
    }
    /* The body: its results onto its parameters, its steps in another order. */
    ls_block *body = &loop->loop->body;
    for (int i = 0; i < body->n_steps; i++) {
        ls_step *step = &body->steps[i];
        ls_place right = step->args[step->n_args - 1];
        for (int p = 0; p < 3; p++) {
            step->args[step->n_args - 1] = (ls_place){loop->loop->param_binds[p], 0};
            ls_error err = {0};
            assert_int_equal(ls_hazard_check(exec, &err), LS_ERR_INTERNAL);
        }
        step->args[step->n_args - 1] = right;
    }
    expect_none(exec);
    body->n_steps--;
    expect_hazard(exec, "iteration");
    ls_exec_free(exec);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(plans_never_overlap),
        TEST(a_chain_needs_two_buffers),
        TEST(memory_is_shared),
        TEST(every_moved_result_is_caught),
        TEST(overlaps_by_one_alignment_are_caught),
        TEST(every_swap_of_steps_is_caught),
        TEST(writes_before_reads_are_caught),
        TEST(in_place_by_other_elements_is_caught),
        TEST(contractions_update_in_place),
        TEST(two_updates_in_one_kernel),
        TEST(faults_in_loops_are_caught),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
