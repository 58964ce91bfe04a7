#define _GNU_SOURCE
#include "support/rendered.h"
#include "base/map.h"
#include "kir/legal.h"
#include "render/render.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 100, SEEN = 1 << 17 };

/* A device with everything, one with bytes and halves alone, one with words alone. */
static const uint32_t traits[] = {LS_KT_ALL & ~(LS_KT_FMA32 | LS_KT_BFLOAT_CAST),
                                  LS_KT_BYTES | LS_KT_HALVES | LS_KT_UNFUSED32 | LS_KT_SUBNORMAL32 |
                                      LS_KT_FLOAT_BITS | LS_KT_ORDER32,
                                  LS_KT_FLOAT_BITS | LS_KT_ORDER32};
static const ls_spirv_options options[] = {{.hide_zero = true,
                                            .rte16 = true,
                                            .rte32 = true,
                                            .rte64 = true,
                                            .denorm_preserve16 = true,
                                            .denorm_preserve32 = true,
                                            .denorm_preserve64 = true,
                                            .nan_preserve32 = true,
                                            .coop_matrix = true},
                                           {.coop_matrix = true},
                                           {.hide_zero = true, .coop_matrix = true}};

static struct {
    bool open;
    ls_heap heap;
    uint64_t seen[SEEN];
    long n_seen, modules, matrices, f64, texts, assembled, refused;
    char folder[64];
    ls_text batch; /* PTX */
    int in_batch;
} all;

static bool is_there(const char *command) {
    return system(command) == 0;
}

const char *rendered_ptxas(void) {
    static const char *found;
    if (!found) {
        found = is_there("ptxas --version >/dev/null 2>&1") ? "ptxas"
                : is_there("/usr/local/cuda/bin/ptxas --version >/dev/null 2>&1")
                    ? "/usr/local/cuda/bin/ptxas"
                    : "";
    }
    return found[0] ? found : NULL;
}

const char *rendered_spirv_vals(void) {
#ifdef LS_SPIRV_VALS
    return access(LS_SPIRV_VALS, X_OK) == 0 ? LS_SPIRV_VALS : NULL;
#else
    return NULL;
#endif
}

static bool is_new(const void *data, size_t size) {
    uint64_t h = ls_hash(data, size, 1);
    h = h ? h : 1;
    for (uint64_t i = h % SEEN; all.n_seen < SEEN / 2; i = (i + 1) % SEEN) {
        if (all.seen[i] == h) {
            return false;
        }
        if (!all.seen[i]) {
            all.seen[i] = h;
            all.n_seen++;
            return true;
        }
    }
    return false;
}

/* ---- PTX: several kernels in a file ---- */

static void assemble(void) {
    char command[256], path[96];
    if (all.in_batch && rendered_ptxas()) {
        snprintf(path, sizeof path, "%s/batch.ptx", all.folder);
        FILE *file = fopen(path, "w");
        bool written = file && fputs(all.batch.data, file) >= 0;
        written = file && fclose(file) == 0 && written;
        snprintf(command, sizeof command, "%s -arch=sm_90a -O1 -o /dev/null %s 1>&2", rendered_ptxas(), path);
        if (!written || !is_there(command)) { /* the file stays, to be looked at */
            fprintf(stderr, "ptxas refuses a kernel of %s\n", path);
            snprintf(command, sizeof command, "cp %s %s/../refused-%ld.ptx", path, all.folder,
                     (long)getpid());
            (void)!system(command);
            all.refused++;
        }
        all.assembled += all.in_batch;
    }
    ls_text_free(&all.batch);
    all.in_batch = 0;
}

/* The same text, its names made its own. */
static void add_to_batch(const char *text) {
    static const char *const names[] = {"main", "shared"};
    const char *at = strstr(text, ".address_size 64\n") + 17;
    if (!all.in_batch) {
        ls_text_add(&all.batch, ".version 8.0\n.target sm_90a\n.address_size 64\n"); /* for kernels that need no a, too */
    }
    while (*at) {
        const char *next = at + 1;
        for (int i = 0; i < 2; i++) {
            size_t n = strlen(names[i]);
            bool word = strncmp(at, names[i], n) == 0 && at[-1] == ' ' &&
                        (at[n] == '(' || at[n] == '[' || at[n] == ';');
            if (word) {
                ls_text_printf(&all.batch, "%s%d", names[i], all.in_batch);
                at += n;
                next = at + 1;
            }
        }
        ls_text_add_n(&all.batch, at, 1);
        at = next;
    }
    if (++all.in_batch == BATCH) {
        assemble();
    }
}

static ls_status add_ptx(ls_arena *arena, const ls_kernel *kernel, ls_error *err) {
    static const ls_ptx_options hopper = {.sm = 90, .arch = true, .isa = 80};
    ls_kernel legal, simple;
    const ls_legal_param *params;
    ls_text text;
    LS_TRY(err, ls_kernel_legalize(arena, kernel, LS_KT_ALL, &legal, &params, err));
    LS_TRY(err, ls_kernel_simplify(arena, &legal, NULL, &simple, err));
    ls_text_init(&text, &all.heap);
    ls_status status = ls_render_ptx(&text, &simple, &hopper, err);
    if (status == LS_OK && is_new(text.data, strlen(text.data))) {
        all.texts++;
        add_to_batch(text.data);
    }
    ls_text_free(&text);
    return status;
}

/* ---- SPIR-V: a file each ---- */

static void validate(void) {
    char command[512];
    const char *judge = rendered_spirv_vals();
    if (judge) {
        snprintf(command, sizeof command, "find %s -name '*.spv' -print0 | xargs -0 -r %s vulkan1.1", all.folder, judge);
        if (!is_there(command)) { /* the files stay, to be looked at */
            all.refused++;
            return;
        }
    }
    snprintf(command, sizeof command, "find %s -name '*.spv' -delete", all.folder);
    (void)!system(command);
}

static ls_status add_spirv(ls_arena *arena, const ls_kernel *kernel, int kind, ls_error *err) {
    ls_kernel legal, simple;
    const ls_legal_param *params;
    uint32_t *words;
    size_t n;
    char path[96];
    ls_status status = ls_kernel_legalize(arena, kernel, traits[kind], &legal, &params, err);
    if (status == LS_ERR_UNSUPPORTED && kind) { /* f64 */
        all.f64++;
        ls_error_clear(err);
        return LS_OK;
    }
    LS_TRY(err, status);
    LS_TRY(err, ls_kernel_simplify(arena, &legal, NULL, &simple, err));
    LS_TRY(err, ls_render_spirv(arena, &simple, &options[kind], &words, &n, err));
    if (!is_new(words, n * sizeof *words)) {
        return LS_OK;
    }
    for (int32_t i = 0; i < simple.n_body; i++) {
        if (ls_kops[simple.body[i].op].kind == LS_KC_MATRIX) {
            all.matrices++;
            return LS_OK;
        }
    }
    snprintf(path, sizeof path, "%s/%ld.spv", all.folder, all.modules);
    FILE *file = fopen(path, "wb");
    bool written = file && fwrite(words, sizeof *words, n, file) == n;
    written = file && fclose(file) == 0 && written;
    if (++all.modules % 2000 == 0) { /* files, while they are few */
        validate();
    }
    return written ? LS_OK : LS_FAIL(err, LS_ERR_IO, "%s cannot be written", path);
}

/* ---- both ---- */

static void at_exit(void) {
    if (rendered_finish()) {
        fflush(NULL);
        _exit(1);
    }
}

static ls_status begin(ls_error *err) {
    static bool registered;
    if (!registered) {
        registered = atexit(at_exit) == 0;
    }
    const char *tmp = getenv("TMPDIR");
    if (!all.open) {
        ls_heap_init(&all.heap, NULL, 0);
        ls_text_init(&all.batch, &all.heap);
        snprintf(all.folder, sizeof all.folder, "%.40s/lockstep-XXXXXX", tmp ? tmp : "/tmp");
        all.open = mkdtemp(all.folder) != NULL;
    }
    return all.open ? LS_OK : LS_FAIL(err, LS_ERR_IO, "no folder for rendered kernels");
}

ls_status rendered_add(const ls_kernel *kernel, ls_error *err) {
    ls_arena arena;
    LS_TRY(err, begin(err));
    ls_arena_init(&arena, &all.heap);
    ls_status status = add_ptx(&arena, kernel, err);
    for (int i = 0; i < 3 && status == LS_OK && !kernel->n_products; i++) { /* those PTX alone has */
        status = add_spirv(&arena, kernel, i, err);
    }
    ls_arena_free(&arena);
    return status;
}

long rendered_finish(void) {
    if (!all.open) {
        return 0;
    }
    assemble();
    validate();
    printf("SPIR-V: %ld modules %s; left out: %ld with cooperative matrices, which spirv-val does not know, "
           "%ld renderings of f64 for"
           " devices without it\n",
           all.modules, rendered_spirv_vals() ? "validated" : "NOT validated: built without SPIRV-Tools (Debian: spirv-tools)",
           all.matrices, all.f64);
    printf("PTX: %ld texts, %ld assembled%s\n", all.texts, all.assembled,
           rendered_ptxas() ? "" : ": no ptxas in PATH or /usr/local/cuda/bin");
    char path[96];
    snprintf(path, sizeof path, "%s/batch.ptx", all.folder);
    (void)!unlink(path);
    (void)!rmdir(all.folder);
    ls_text_free(&all.batch);
    all.open = false;
    return all.refused + (all.heap.used != 0);
}
