/* A layer whose weights are kept in 4 or 8 bits: what it takes, how far its results are from those of f32, and how long it takes.
 *
 *     quantised_weights [ROWS]     so many rows of activations; without one: 1
 *
 * Locked arithmetic gives the bits of dequantised weights in a product, on every device; reduced arithmetic quantises the activations too,
 * where the processor multiplies bytes. */
#include <lockstep/lockstep.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { IN = 1024, OUT = 1024, REPEATS = 20 };

static void fill(float *x, int64_t n) {
    static unsigned state = 1;
    for (int64_t i = 0; i < n; i++) {
        state = state * 1664525u + 1013904223u;
        x[i] = (float)(state >> 8) / (1 << 23) - 1;
    }
}

static double now(void) {
    struct timespec t;
    timespec_get(&t, TIME_UTC);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

/* Runs y = x w^T once into `y`, then some times; milliseconds of the fastest, negative after a failure. */
static double run(ls_session *s, ls_tensor *x, ls_tensor *y, const float *in, float *out) {
    ls_program *program = NULL;
    double best = -1;
    if (ls_program_compile(s, &x, 1, &y, 1, &program) != LS_OK) {
        return -1;
    }
    for (int i = 0; i <= REPEATS; i++) {
        double start = now();
        if (ls_program_run(program, (const void *[]){in}, (void *[]){out}) != LS_OK) {
            best = -1;
            break;
        }
        double took = now() - start;
        best = i == 0 || took < best ? took : best;
    }
    ls_program_destroy(program);
    return best;
}

static ls_status compare(ls_session *s, int64_t rows, const float *w, const float *in, ls_error *err) {
    static const ls_quant kinds[] = {LS_Q8_0, LS_Q4_0};
    static const char *const names[] = {"q8_0", "q4_0"}, *const maths[] = {"locked", "fast", "reduced"};
    float *exact = malloc(sizeof(float) * (size_t)(rows * OUT)), *got = malloc(sizeof(float) * (size_t)(rows * OUT));
    uint8_t *bytes = malloc((size_t)(OUT * ls_quant_bytes(LS_Q8_0, IN)));
    ls_tensor *x = ls_input(s, "x", LS_F32, LS_SHAPE(rows, IN));
    ls_status status = exact && got && bytes ? LS_OK : LS_ERR_MEMORY;
    if (status == LS_OK) {
        double took = run(s, x, ls_linear(s, x, ls_tensor_from(s, LS_F32, LS_SHAPE(OUT, IN), w), NULL), in, exact);
        printf("f32            %8d bytes                                     %8.3f ms\n", OUT * IN * 4, took);
    }
    for (int i = 0; i < 6 && status == LS_OK; i++) {
        ls_quant kind = kinds[i / 3];
        int64_t row = ls_quant_bytes(kind, IN);
        double gap = 0, size = 0;
        status = ls_quantize(kind, OUT, IN, w, bytes, err);
        if (status != LS_OK) {
            break;
        }
        ls_session_set_math(s, (ls_math)(i % 3));
        x = ls_input(s, "x", LS_F32, LS_SHAPE(rows, IN));
        double took = run(s, x, ls_linear_q(s, x, ls_tensor_from(s, LS_U8, LS_SHAPE(OUT, row), bytes), kind, NULL), in, got);
        status = ls_session_error(s)->code;
        for (int64_t k = 0; k < rows * OUT; k++) {
            gap += ((double)got[k] - exact[k]) * ((double)got[k] - exact[k]);
            size += (double)exact[k] * exact[k];
        }
        printf("%s %-8s  %8d bytes  square error %.2e of the results'  %8.3f ms\n", names[i / 3], maths[i % 3], (int)(OUT * row), gap / size, took);
    }
    free(exact);
    free(got);
    free(bytes);
    return status;
}

int main(int argc, char **argv) {
    int64_t rows = argc > 1 ? atoi(argv[1]) : 1;
    ls_error err = {LS_OK, "", 0, {{0, 0}}};
    ls_context *context = NULL;
    ls_session *s = NULL;
    rows = rows < 1 ? 1 : rows;
    float *w = malloc(sizeof *w * OUT * IN), *in = malloc(sizeof *in * (size_t)(rows * IN));
    ls_status status = w && in ? ls_context_create(NULL, &context, &err) : LS_ERR_MEMORY;
    status = status == LS_OK ? ls_session_create(context, NULL, &s, &err) : status;
    if (status == LS_OK) {
        fill(w, OUT * IN);
        fill(in, rows * IN);
        status = compare(s, rows, w, in, &err);
    }
    if (status != LS_OK) {
        fprintf(stderr, "quantised_weights: %s\n", err.code != LS_OK || !s ? err.message : ls_session_error(s)->message);
    }
    ls_session_destroy(s);
    ls_context_destroy(context);
    free(w);
    free(in);
    return status != LS_OK;
}
