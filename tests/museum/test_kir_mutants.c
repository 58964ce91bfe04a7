/* Mutants of emitted kernels, generated: every operator below at every instruction of the kernels of a graph for each template.
 * A mutant is killed by the verifier, by the interpreter's checks (races, bounds, what nothing wrote), or because a bit differs
 * from what the right kernels give on one of eighteen sets of inputs. Else it must be equivalent, by one of two rules:
 *   text    simplified, it is the right kernel
 *   trace   what it gives otherwise is never stored and decides nothing, held back by conditions that depend on the places of
 *           threads alone: then it is on all inputs
 *   structure   +0 + x for x where the sign of a zero is lost; a barrier with nothing to part
 * or by one of the proofs below; the test prints other survivors and fails. LOCKSTEP_MUTANTS=all tries all, else those that
 * LOCKSTEP_SECONDS (10) allow, in an order of chance; LOCKSTEP_ROWS=text takes the templates whose name contains it. */
#include "base/map.h"
#include "base/os.h"
#include "support/covers.h"
#include "unit/test_emit.h"
#include "museum/kir_mutate.h"
#include "museum/kir_shadow.h"

enum { SETS = 18 };

/* ---- proofs by hand: an operator at instructions of one kind in a template's kernels ---- */

static const struct {
    ls_cover template;
    const char *ops; /* names of instructions */
    unsigned operators;
    const char *why;
} proofs[] = {
#define AT(op) (1u << (op))
    {LS_COVER_ROW_WORKGROUP, " and or not eq ne lt ", AT(OPCODE) | AT(IGNORE) | AT(CONSTANT),
     "which of two pairs goes first is said twice: being less, and being equal or NaN and earlier, exclude "
     "each other; positions are"
     " never equal; a row of 300 leaves no thread without an element. Every pair of 1 and NaN meets at every "
     "step in the inputs"},
    {LS_COVER_ROW_WORKGROUP, " var select ", AT(CONSTANT) | AT(IGNORE),
     "the first value is never looked at beside the position that says there is none, which at the end no "
     "row of 300 has"},
    {LS_COVER_ROW_WORKGROUP, " loop add store ", AT(CONSTANT) | AT(BOUND) | AT(PLACE),
     "what the last step of the halving stores at element 1 nobody reads; a loop of one trip has any step"},
    {LS_COVER_COLUMNS, " min eq ", AT(CONSTANT) | AT(IGNORE),
     "beyond the end the index is only to be in bounds: the element is not added, nor are those of a round more; any line of "
     "threads may do the last steps"},
    {LS_COVER_VECTOR, " eq ", AT(CONSTANT), "any line of threads may do the last steps"},
    {LS_COVER_BLOCKS, " min eq lt add ", AT(CONSTANT) | AT(IGNORE) | AT(OPCODE),
     "beyond the end the index is only to be in bounds; of a sum over all there is one row, whose number is "
     "0"},
    {LS_COVER_BLOCKS_OF_BLOCKS, " var eq lt add barrier ", AT(CONSTANT) | AT(IGNORE) | AT(OPCODE) | AT(DROP),
     "one row, whose number is 0; the last barrier parts the array from a use that is not there; +0 before "
     "sums that are not -0"},
    {LS_COVER_REDUCE_SERIAL, " add select loop ", AT(IGNORE) | AT(CONSTANT) | AT(BOUND),
     "of a line of 11 no partial has two elements; the tree's slots are filled again before they are read"},
    {LS_COVER_TURNED, " div ", AT(OPCODE) | AT(IGNORE), "beyond the last tile of a line there is none"},
    {LS_COVER_SORT, " or ", AT(OPCODE), "being less and being NaN exclude each other"},
    {LS_COVER_SCATTER_UPDATE, " and or le lt ", AT(OPCODE) | AT(IGNORE) | AT(CONSTANT),
     "the index is tested twice, as an index and as a place: one implies the other where the axes below are "
     "in their bounds"},
    {LS_COVER_SCATTER_UPDATE, " load canon ", AT(IGNORE) | AT(CONSTANT),
     "what is read where the update is out of range is not stored; what the first kernel stored and a sum "
     "gave is canonical"},
    {LS_COVER_SCATTER_ELEMENT, " and or le lt min var set ne eq store canon ",
     AT(OPCODE) | AT(IGNORE) | AT(CONSTANT) | AT(PRED_DROP),
     "the place is compared with one that is in bounds, so that the test of bounds says nothing more; an "
     "element that met no update is"
     " stored as the first kernel left it, canonical; met is any number but 0"},
    {LS_COVER_SCATTER_SERIAL, " and or le lt load canon ", AT(OPCODE) | AT(IGNORE) | AT(CONSTANT),
     "as by update"},
    {LS_COVER_TILED, " select lt if ", AT(IGNORE) | AT(CONSTANT) | AT(OPCODE) | AT(PRED_DROP),
     "a slab past the end is +0 on both sides, of which one is enough where the other is finite; no product "
     "is taken of one that is"
     " fetched for nothing"},
    {LS_COVER_TILED_CHUNKS, " select lt le if ", AT(IGNORE) | AT(CONSTANT) | AT(OPCODE) | AT(PRED_DROP),
     "as by tiles"},
    {LS_COVER_TILED_CHUNKS, " add ", AT(IGNORE) | AT(CONSTANT),
     "a chunk's sum begins with +0, so it is never -0; what a trip more adds after it was stored nobody stores"},
    {LS_COVER_GEMV, " select lt min if add ", AT(IGNORE) | AT(CONSTANT) | AT(OPCODE) | AT(PRED_DROP),
     "as by tiles"},
    {LS_COVER_TILED_MASKED, " select eq ne and min if store atomic_or ",
     AT(IGNORE) | AT(CONSTANT) | AT(OPCODE) | AT(PRED_DROP),
     "as by tiles; products are masked oftener than must be, where something finite stood for what was not"},
    {LS_COVER_ROW_FOURS, " join ", AT(EXCHANGE),
     "partials i and i + 2 exchanged everywhere meet at the step of 2, where sums commute"},
    {LS_COVER_REPORT, " and or le lt select ", AT(OPCODE) | AT(IGNORE) | AT(CONSTANT) | AT(EXCHANGE),
     "the index is tested twice, as an index and as a place"},
#undef AT
};

static bool is_proved(ls_cover template, const char *op, operator operator_of) {
    char word[40];
    snprintf(word, sizeof word, " %s ", op);
    for (size_t i = 0; i < sizeof proofs / sizeof *proofs; i++) {
        if (proofs[i].template == template && strstr(proofs[i].ops, word) &&
            proofs[i].operators >> operator_of & 1) {
            return true;
        }
    }
    return false;
}

/* ---- runs ---- */

typedef struct bench {
    const ls_check_event *event;
    snapshot *s;
    ls_kernel_list list; /* simplified */
    void **in[SETS], **expected[SETS];
    uint32_t status[SETS];
    void ***args[SETS], ***scratch[SETS]; /* by kernel: what it finds */
    uint32_t *found[SETS];
} bench;

/* All memory of a list, in an arena; arguments that are only read are shared. */
static void copy_all(const bench *b, ls_arena *a, void *const *args, void *const *scratch, void **out_args,
                     void **out_scratch) {
    for (int i = 0; i < b->event->spec->n_args; i++) {
        out_args[i] =
            b->event->spec->args[i].written ? ls_arena_copy(a, args[i], arg_size(b->event, i) + 64) : args[i];
        assert_non_null(out_args[i]);
    }
    for (int i = 0; i < b->list.n_scratch; i++) {
        size_t size = (size_t)b->list.scratch[i].count * ls_dtype_size(b->list.scratch[i].dtype) + 64;
        out_scratch[i] = scratch ? ls_arena_copy(a, scratch[i], size) : ls_arena_alloc(a, size);
        assert_non_null(out_scratch[i]);
    }
}

/* The kernels from number `which` on, that one replaced; `word`: of a witness. With `kernel` NULL all, and what each finds is kept. */
static ls_status run(bench *b, ls_arena *a, int which, const ls_kernel *kernel, int set, void **args,
                     uint32_t *status, uint32_t *word, ls_error *err) {
    void **scratch = LS_ARENA_ARRAY(a, void *, b->list.n_scratch + 1);
    assert_non_null(scratch);
    *status = kernel ? b->found[set][which] : 0;
    copy_all(b, a, kernel ? b->args[set][which] : b->in[set], kernel ? b->scratch[set][which] : NULL, args,
             scratch);
    for (int i = kernel ? which : 0; i < b->list.n_kernels; i++) {
        const ls_emit_kernel *e = &b->list.kernels[i];
        ls_interp_buffer buffers[65];
        if (!kernel) {
            b->args[set][i] = LS_ARENA_ARRAY(a, void *, b->event->spec->n_args + 1);
            b->scratch[set][i] = LS_ARENA_ARRAY(a, void *, b->list.n_scratch + 1);
            copy_all(b, a, args, scratch, b->args[set][i], b->scratch[set][i]);
            b->found[set][i] = *status;
        }
        for (int n = 0; n < e->kernel.n_globals; n++) {
            int number = e->bindings[n].number;
            ls_emit_place place = e->bindings[n].place;
            bool first = place == LS_EMIT_SCRATCH; /* whether nothing wrote it yet */
            for (int before = 0; before < i && first; before++) {
                const ls_emit_kernel *earlier = &b->list.kernels[before];
                for (int m = 0; m < earlier->kernel.n_globals; m++) {
                    first = first &&
                            (earlier->bindings[m].place != place || earlier->bindings[m].number != number);
                }
            }
            buffers[n] = place == LS_EMIT_ARG
                             ? (ls_interp_buffer){args[number], b->event->spec->args[number].numel, false}
                         : place == LS_EMIT_SCRATCH
                             ? (ls_interp_buffer){scratch[number], b->list.scratch[number].count, first}
                             : (ls_interp_buffer){status, 1, false};
        }
        buffers[e->kernel.n_globals] = (ls_interp_buffer){word, 1, false};
        ls_interp_launch launch = {.buffers = buffers, .seed = 77};
        LS_TRY(err, ls_kernel_interp(a->heap, kernel && i == which ? kernel : &e->kernel, &launch, err));
    }
    return LS_OK;
}

static bool differs(const bench *b, void *const *args, uint32_t status, int set) {
    bool differ = status != b->status[set];
    for (int i = 0; i < b->event->spec->n_args && !differ; i++) {
        differ = b->event->spec->args[i].written &&
                 memcmp(args[i], b->expected[set][i], arg_size(b->event, i)) != 0;
    }
    return differ;
}

/* Rows of 300 of -1 with two elements of 1 or NaN, which meet at one step of a halving: each pair at each step, over 8 sets. */
static float pair(int set, int64_t e) {
    int64_t c = set * 5 + e / 300 % 5, at = e % 300, apart = INT64_C(1) << (c / 4 % 9),
            first = c * 13 % (apart < 44 ? apart : 44);
    bool one = at == first, other = at == first + apart;
    return !one && !other ? -1 : (c >> (other ? 1 : 0) & 1) ? __builtin_nanf("") : 1;
}

/* Infinities in a filter of 72 elements a row, at a tap that padding leaves out at one end (0: of the first 16 that a tile takes, 2:
 * of the next): by one of the rows that a thread fetches, or by two. */
static bool alone(int set, int64_t e) {
    static const struct {
        int set, row, tap;
    } at[] = {{15, 0, 0}, {15, 16, 2}, {16, 32, 0}, {16, 0, 2}, {16, 16, 2}, {17, 0, 0}, {17, 32, 0}, {17, 48, 2}};
    for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
        if (at[i].set == set && e == at[i].row * 72 + at[i].tap) {
            return true;
        }
    }
    return false;
}

/* Set 0 is the graph's own; 1 has roundings; 2 also special values; 3 a few NaNs; 4 has zeros of both signs alone; 5 subnormals,
 * ascending;
 * 6 to 13 pairs; 14 has infinities at the ends of lines alone, 15 to 17 a few in a filter. From 2 on indices are out of range. */
static void make_inputs(bench *b) {
    /* zeros, subnormals, infinities, NaNs of several bits */
    static const uint32_t special[] = {0x80000000, 0x1234,     0x8000fff0, 0,         0x7f800000,
                                       0x7f7fffff, 0x7fc12345, 0xff800000, 0xffffffff};
    enum { SPECIALS = sizeof special / sizeof *special };
    for (int set = 0; set < SETS; set++) {
        b->in[set] = LS_ARENA_ARRAY(&b->s->arena, void *, b->event->spec->n_args + 1);
        b->expected[set] = LS_ARENA_ARRAY(&b->s->arena, void *, b->event->spec->n_args + 1);
        for (int i = 0; i < b->event->spec->n_args; i++) {
            const ls_spec_arg *arg = &b->event->spec->args[i];
            char *bytes = ls_arena_alloc(&b->s->arena, arg_size(b->event, i) + 64);
            assert_non_null(bytes);
            memcpy(bytes, b->s->bytes[i], arg_size(b->event, i));
            for (int64_t e = 0; e < arg->numel && set; e++) {
                uint64_t h = ls_hash_u64((uint64_t)e, (uint64_t)(i + 10));
                if (arg->dtype == LS_I32 && set >= 2) { /* indices: below, at the end, far */
                    memcpy(bytes + 4 * e,
                           (const int32_t[]){(int32_t)e % 5, -1, 5, INT32_MAX} + (h + (uint64_t)set) % 4, 4);
                }
                if (arg->dtype == LS_F32) {
                    float x;
                    memcpy(&x, bytes + 4 * e, 4);
                    x = set == 5   ? (float)(e % 1000 + 1) * 1e-44f
                        : set == 4 ? x * 0.0f
                                   : x * 1.37f + (float)(h % 1009) * 0.00317f;
                    x = set < 6     ? x
                        : set < 14  ? pair(set - 6, e)
                        : set == 14 ? (e % 33 == 32 || e >= 32 * 44 ? __builtin_inff() : 1)
                                    : (alone(set, e) ? __builtin_inff() : 1);
                    memcpy(bytes + 4 * e, &x, 4);
                    if ((set == 2 && h % 16 < SPECIALS) || (set == 3 && h % 61 == 0)) {
                        memcpy(bytes + 4 * e, &special[set == 3 ? h % 2 ? 6 : 8 : h % 16], 4);
                    }
                }
            }
            b->in[set][i] = bytes;
        }
    }
}

static struct {
    long tried, verifier, checks, bits, text, trace, structure, proved, survived;
} score[OPERATORS];
static ls_cover template;
static double budget;
static uint64_t began;

static void judge(bench *b, int which, operator op, int32_t at, int variant) {
    ls_arena a;
    ls_arena_init(&a, b->s->arena.heap);
    const ls_kernel *k = &b->list.kernels[which].kernel;
    mutant m;
    ls_error err = {.code = LS_OK};
    if (mutate(&a, k, op, at, variant, &m) && ((op != IGNORE && op != CONSTANT) || m.valued)) {
        bool typed = true;
        for (int32_t i = 0; i < m.kernel.n_body && typed; i++) {
            typed = ls_kir_check_types(&m.kernel, i, &err) == LS_OK;
        }
        ls_status status = LS_OK;
        bool differ = false;
        void **args = LS_ARENA_ARRAY(&a, void *, b->event->spec->n_args + 1);
        uint32_t word = 0, report = 0;
        ls_kernel watched;
        score[op].tried += typed;
        if (!typed) {
        } else if (ls_kernel_verify(a.heap, &m.kernel, &err) != LS_OK) {
            score[op].verifier++;
        } else {
            for (int set = 0; set < SETS && status == LS_OK && !differ; set++) {
                status = run(b, &a, which, &m.kernel, set, args, &report, &word, &err);
                differ = status == LS_OK && differs(b, args, report, set);
            }
            if (status != LS_OK || differ) {
                score[op].checks += status != LS_OK;
                score[op].bits += differ;
            } else if (strcmp(text_of(&a, k), text_of(&a, &m.kernel)) == 0) {
                score[op].text++;
            } else if (op != GRID && op != PRED_NEGATE && k->body[at].op != LS_K_BARRIER &&
                       witness(&a, k, at, &m, &watched) &&
                       run(b, &a, which, &watched, 0, args, &report, &word, &err) == LS_OK && !word) {
                score[op].trace++;
            } else if (by_structure(k, op, at, &m)) {
                score[op].structure++;
            } else if (is_proved(template, ls_kops[k->body[at].op].name, op) && !getenv("LOCKSTEP_PRINT")) {
                score[op].proved++;
            } else {
                score[op].survived++;
                printf("survives: %s, kernel %d of %d (%s), %%%d %s: %s %d\n", ls_cover_text[template], which,
                       b->list.n_kernels, k->name, at, ls_kops[k->body[at].op].name, operator_names[op],
                       variant);
                if (getenv("LOCKSTEP_PRINT")) {
                    printf("%s", text_of(&a, k));
                }
            }
        }
    }
    ls_arena_free(&a);
}

static bool over(void) {
    return budget > 0 && (double)(ls_os_nanoseconds() - began) * 1e-9 > budget;
}

/* All operators at all instructions of all kernels, in an order of chance. */
static void all_mutants(bench *b) {
    long sites = 0, n = 0;
    for (int i = 0; i < b->list.n_kernels; i++) {
        sites += b->list.kernels[i].kernel.n_body;
    }
    sites *= OPERATORS;
    for (long stride = 7919, at = (long)(ls_hash_u64((uint64_t) template, 3) % (uint64_t)sites);
         n < sites && !over(); n++) {
        while (sites % stride == 0) {
            stride += 2;
        }
        at = (at + stride) % sites;
        long site = at / OPERATORS;
        int which = 0;
        while (site >= b->list.kernels[which].kernel.n_body) {
            site -= b->list.kernels[which++].kernel.n_body;
        }
        bool totals = strstr(b->list.kernels[which].kernel.name, "blocks_of_blocks") != NULL;
        for (int variant = 0; variant < 6 && totals == (template == LS_COVER_BLOCKS_OF_BLOCKS); variant++) {
            judge(b, which, (operator)(at % OPERATORS), (int32_t)site, variant);
        }
    }
}

static ls_status mutants_after(const ls_check_event *event, void *state, ls_error *err) {
    static const ls_emit_caps caps = {.max_threads = 256, .max_shared = 32768};
    bench b = {.event = event, .s = state};
    LS_TRY(err, ls_emit(&b.s->arena, event->spec, &caps, NULL, &b.list, err));
    if (b.list.cover >> template & 1) { /* not what made its inputs */
        for (int i = 0; i < b.list.n_kernels; i++) {
            LS_TRY(err, ls_kernel_simplify(&b.s->arena, &b.list.kernels[i].kernel, NULL,
                                           &b.list.kernels[i].kernel, err));
        }
        make_inputs(&b);
        for (int set = 0; set < SETS; set++) {
            uint32_t word = 0;
            b.args[set] = LS_ARENA_ARRAY(&b.s->arena, void **, b.list.n_kernels + 1);
            b.scratch[set] = LS_ARENA_ARRAY(&b.s->arena, void **, b.list.n_kernels + 1);
            b.found[set] = LS_ARENA_ARRAY(&b.s->arena, uint32_t, b.list.n_kernels + 1);
            LS_TRY(err, run(&b, &b.s->arena, -1, NULL, set, b.expected[set], &b.status[set], &word, err));
        }
        for (int i = 0; i < event->spec->n_args; i++) {
            if (event->spec->args[i].written) {
                assert_memory_equal(b.expected[0][i], arg_bytes(event, i), arg_size(event, i));
            }
        }
        all_mutants(&b);
    }
    drop(event, state);
    return LS_OK;
}

/* As many blocks as a workgroup has threads, and some more. */
static ls_tensor *many_blocks(ls_session *s) {
    ls_shape line = LS_SHAPE(300 * 4096 + 77);
    ls_tensor *x = ls_rem(s, ls_iota(s, LS_I32, line, 0), ls_full(s, LS_I32, line, 4093));
    x = ls_cast(s, x, LS_F32);
    return ls_realize(s, &x, 1) == LS_OK ? ls_sum(s, x, 0, NULL, 0) : NULL;
}

static void mutants(void **state) {
    (void)state;
    static const ls_check_hooks mutating = {before, mutants_after, drop};
    const char *all = getenv("LOCKSTEP_MUTANTS"), *seconds = getenv("LOCKSTEP_SECONDS"),
               *only = getenv("LOCKSTEP_ROWS");
    double each = (seconds ? atof(seconds) : 10) / LS_COVERS;
    long tried = 0, survived = 0;
    for (int i = 0; i < LS_COVER_REPORT + 1; i++) {
        bool matrices =
            i == LS_COVER_FRAGMENTS || i == LS_COVER_MATRIX || i == LS_COVER_PRODUCT; /* tests/unit/test_emit_matrix.c has those */
        bool large = i == LS_COVER_BLOCKS_OF_BLOCKS && !all;
        if (matrices || large || (only && !strstr(ls_cover_text[i], only))) {
            continue;
        }
        world w = world_open("ref");
        ls_data *data = NULL;
        template = (ls_cover)i;
        budget = all ? 0 : each;
        began = ls_os_nanoseconds();
        ls_engine_set_check(w.context, LS_CHECK_BITS, &mutating);
        ls_tensor *x = template == LS_COVER_BLOCKS_OF_BLOCKS ? many_blocks(w.session)
                                                             : covers_build(w.session, template, LS_F16);
        world_ok(&w, x ? ls_data_from_tensor(w.session, x, &data) : ls_session_error(w.session)->code);
        ls_data_release(data);
        world_close(&w);
    }
    printf("%-12s %8s %9s %8s %8s %8s %8s %10s %8s %9s\n", "operator", "mutants", "verifier", "checks",
           "bits", "text", "trace", "structure", "by hand", "surviving");
    for (int i = 0; i < OPERATORS; i++) {
        printf("%-12s %8ld %9ld %8ld %8ld %8ld %8ld %10ld %8ld %9ld\n", operator_names[i], score[i].tried,
               score[i].verifier, score[i].checks, score[i].bits, score[i].text, score[i].trace,
               score[i].structure, score[i].proved, score[i].survived);
        tried += score[i].tried;
        survived += score[i].survived;
    }
    printf("%ld mutants, %ld surviving\n", tried, survived);
    assert_true(tried > 100 || only);
    assert_int_equal(survived, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(mutants)};
    return cmocka_run_group_tests_name("kir_mutants", tests, NULL, NULL);
}
