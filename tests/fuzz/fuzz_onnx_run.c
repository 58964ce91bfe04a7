/* libFuzzer's entry for running ONNX models: one that loads is run on small inputs of the types and shapes that it asks for, under a limit
 * of memory. It may be refused at any point; with the sanitizers on, anything else, or memory that is kept, ends the run. */
#include <lockstep/lockstep.h>
#include <lockstep/model.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INPUTS = 8, MOST_ELEMENTS = 4096, UNSAID = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

/* Whole numbers from 0 to 3 in any dtype; false: an input that no small array can be. */
static int make_input(ls_context *context, const ls_model_port *port, ls_data **out) {
    int rank = port->rank < 0 ? 2 : port->rank;
    int64_t dims[LS_MAX_RANK], n = 1;
    if (port->dtype == LS_DTYPE_COUNT) {
        return 0;
    }
    for (int i = 0; i < rank; i++) {
        dims[i] = port->rank < 0 || port->dims[i] < 0 ? UNSAID : port->dims[i];
        if (dims[i] > MOST_ELEMENTS || (n *= dims[i]) > MOST_ELEMENTS) {
            return 0;
        }
    }
    static uint64_t storage[MOST_ELEMENTS];
    uint8_t *bytes = (uint8_t *)storage;
    size_t width = ls_dtype_size(port->dtype);
    for (int64_t i = 0; i < n; i++) {
        static const uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200}, bf16[] = {0, 0x3f80, 0x4000, 0x4040};
        static const float f32[] = {0, 1, 2, 3};
        static const double f64[] = {0, 1, 2, 3};
        uint64_t v = (uint64_t)i % (port->dtype == LS_BOOL ? 2 : 4);
        const void *from = port->dtype == LS_F16    ? (const void *)&f16[v]
                           : port->dtype == LS_BF16 ? (const void *)&bf16[v]
                           : port->dtype == LS_F32  ? (const void *)&f32[v]
                           : port->dtype == LS_F64  ? (const void *)&f64[v]
                                                    : (const void *)&v;
        memcpy(bytes + (size_t)i * width, from, width);
    }
    return ls_data_create(context, port->dtype, rank, dims, bytes, out, NULL) == LS_OK;
}

static void run(ls_context *context, ls_session *session, ls_model *m) {
    ls_named_data inputs[MOST_INPUTS];
    ls_data *made[MOST_INPUTS] = {NULL};
    int n = ls_model_input_count(m), n_out = ls_model_output_count(m), given = 0, fit = n <= MOST_INPUTS && n_out <= 64;
    for (int i = 0; i < n && fit; i++) {
        ls_model_port port = ls_model_input(m, i);
        fit = port.has_default || make_input(context, &port, &made[i]);
        if (made[i]) {
            inputs[given++] = (ls_named_data){port.name, made[i]};
        }
    }
    ls_runner *runner = NULL;
    ls_data *outputs[64] = {NULL};
    if (fit && ls_runner_create(session, m, &runner) == LS_OK && ls_runner_run(runner, given, inputs, outputs) == LS_OK) {
        for (int i = 0; i < n_out; i++) {
            char hex[65];
            if (outputs[i]) {
                ls_data_sha256(outputs[i], hex);
            }
            ls_data_release(outputs[i]);
        }
    }
    ls_runner_destroy(runner);
    for (int i = 0; i < MOST_INPUTS; i++) {
        ls_data_release(made[i]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static ls_context *context;
    static ls_device *cpu;
    if (!context) {
        const ls_context_options options = {.memory_limit = (size_t)256 << 20, .threads = 1};
        if (ls_context_create(&options, &context, NULL) != LS_OK || ls_device_open(context, "cpu", &cpu, NULL) != LS_OK) {
            abort();
        }
    }
    ls_data *file = NULL;
    ls_model *m = NULL;
    ls_session *session = NULL;
    if (ls_data_create(context, LS_U8, 1, (const int64_t[]){(int64_t)size}, bytes, &file, NULL) != LS_OK) {
        abort();
    }
    if (ls_model_load_data(context, "fuzzed", file, &m, NULL) == LS_OK && ls_session_create(context, cpu, &session, NULL) == LS_OK) {
        run(context, session, m);
    }
    ls_session_destroy(session);
    ls_model_release(m);
    ls_data_release(file);
    return 0;
}
