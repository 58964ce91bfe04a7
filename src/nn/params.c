/* Named parameters. A parameter's first values are a function of the seed and its name alone, so the order in which layers are built does
 * not matter. */
#include "base/alloc.h"
#include "base/elements.h"
#include "base/map.h"
#include "base/numerics.h"
#include "base/rng.h"
#include "base/status.h"
#include "nn/params.h"
#include <lockstep/io.h>
#include <lockstep/verify.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ls_status ls_params_create(ls_session *session, uint64_t seed, ls_params **out_params) {
    ls_heap *heap = ls_context_heap(ls_session_context(session));
    ls_params *params = ls_alloc_zeroed(heap, sizeof *params);
    if (!params) {
        return LS_ERR_MEMORY;
    }
    params->heap = heap;
    params->seed = seed;
    *out_params = params;
    return LS_OK;
}

ls_status ls_params_open(ls_session *session, const char *path, ls_params **out_params, ls_error *err) {
    ls_params *params = NULL;
    if (ls_params_create(session, 0, &params) != LS_OK) {
        return LS_FAIL_MEMORY(err, path);
    }
    params->path = ls_strdup(params->heap, path);
    ls_status status = params->path ? ls_archive_open(ls_session_context(session), path, &params->archive, err)
                                    : LS_FAIL_MEMORY(err, path);
    if (status != LS_OK) {
        ls_params_destroy(params);
        return status;
    }
    *out_params = params;
    return LS_OK;
}

void ls_params_destroy(ls_params *params) {
    if (params) {
        ls_archive_close(params->archive);
        ls_free(params->heap, params->path);
        for (size_t i = 0; i < params->vars.len; i++) {
            ls_var_destroy(params->vars.data[i]);
        }
        ls_array_free(params->heap, &params->vars);
        ls_free(params->heap, params);
    }
}

int ls_params_count(const ls_params *params) {
    return (int)params->vars.len;
}
ls_var *ls_params_at(const ls_params *params, int index) {
    return index >= 0 && index < (int)params->vars.len ? params->vars.data[index] : NULL;
}
ls_var *ls_params_find(const ls_params *params, const char *name) {
    for (size_t i = 0; i < params->vars.len; i++) {
        if (strcmp(ls_var_name(params->vars.data[i]), name) == 0) {
            return params->vars.data[i];
        }
    }
    return NULL;
}

static bool fixed_numel(const ls_shape *shape, int64_t *out_n) {
    *out_n = 1;
    for (int i = 0; i < shape->rank; i++) {
        if (shape->dim[i].symbol || shape->dim[i].offset < 0 ||
            __builtin_mul_overflow(*out_n, shape->dim[i].offset, out_n) || *out_n > INT64_MAX / 8) {
            return false;
        }
    }
    return shape->rank >= 0;
}

static bool shapes_agree(const ls_shape *a, const ls_shape *b) {
    bool same = a->rank == b->rank;
    for (int i = 0; same && i < a->rank; i++) {
        same = !a->dim[i].symbol && !b->dim[i].symbol && a->dim[i].offset == b->dim[i].offset;
    }
    return same;
}

static void initial(const ls_params *params, const char *name, ls_init init, double fan_in, float *values, int64_t n) {
    ls_rng rng = {ls_rng_key(params->seed, ls_hash(name, strlen(name), 0)), 0};
    ls_numerics numerics = ls_numerics_enter();
    double root = __builtin_sqrt(init == LS_INIT_KAIMING ? 2 / fan_in : fan_in), units[256];
    for (int64_t i = 0; i < n && init == LS_INIT_UNIFORM; i += 256) {
        int64_t m = n - i < 256 ? n - i : 256;
        ls_rng_units(&rng, units, m);
        for (int64_t j = 0; j < m; j++) {
            values[i + j] = (float)((2 * units[j] - 1) / root);
        }
    }
    for (int64_t i = 0; i < n && init != LS_INIT_UNIFORM; i++) {
        values[i] = init == LS_INIT_KAIMING ? (float)(ls_rng_normal(&rng) * root) : init == LS_INIT_ONES;
    }
    ls_numerics_leave(numerics);
}

static const char *extents(const ls_shape *shape, char out[200]) {
    int n = snprintf(out, 200, "[");
    for (int i = 0; i < shape->rank; i++) {
        n += snprintf(out + n, (size_t)(200 - n), "%s%lld", i ? "," : "", (long long)shape->dim[i].offset);
    }
    snprintf(out + n, (size_t)(200 - n), "]");
    return out;
}

/* The array of a parameter, as it must be. */
static ls_status get_array(ls_archive *archive, const char *path, const char *name, ls_dtype dtype, const ls_shape *shape, ls_data **out_data,
                           ls_error *err) {
    ls_data *data = NULL;
    LS_TRY(err, ls_archive_get(archive, name, &data, err));
    ls_shape found = ls_shape_make(ls_data_rank(data), ls_data_dims(data));
    if (ls_data_dtype(data) != dtype || !shapes_agree(shape, &found)) {
        char want[200], got[200];
        ls_status status = LS_FAIL(err, LS_ERR_SHAPE, "%s: \"%s\" is %s%s: expected %s%s", path, name, ls_dtype_name(ls_data_dtype(data)),
                                   extents(&found, got), ls_dtype_name(dtype), extents(shape, want));
        ls_data_release(data);
        return status;
    }
    *out_data = data;
    return LS_OK;
}

/* How a parameter starts. */
typedef struct start {
    ls_init init;
    double fan_in;
    const ls_data *first; /* else NULL: by `init` */
} start;

/* A new parameter's variable; NULL: the session has the error. */
static ls_var *make_var(ls_session *s, ls_params *params, const char *name, const ls_shape *shape, int64_t n, const start *how) {
    if (params->archive) {
        ls_data *data = NULL;
        ls_error err = {.code = LS_OK};
        if (get_array(params->archive, params->path, name, LS_F32, shape, &data, &err) != LS_OK) {
            return ls_session_set_error(s, err.code, "%s", err.message), NULL;
        }
        ls_var *var = ls_data_to_var(s, name, data);
        ls_data_release(data);
        return var;
    }
    if (how->first) {
        return ls_data_to_var(s, name, how->first);
    }
    float *values = ls_alloc(params->heap, sizeof *values * (size_t)(n + 1));
    if (!values) {
        return ls_session_set_error(s, LS_ERR_MEMORY, "parameter \"%s\": out of memory", name), NULL;
    }
    initial(params, name, how->init, how->fan_in, values, n);
    ls_var *var = ls_var_create(s, name, LS_F32, *shape, values);
    ls_free(params->heap, values);
    return var;
}

static ls_tensor *param(ls_session *s, ls_params *params, const char *name, ls_dtype dtype, ls_shape shape, const start *how) {
    ls_var *var = ls_params_find(params, name);
    int64_t n;
    if (var) {
        ls_shape have = ls_var_shape(var);
        if (ls_var_dtype(var) != dtype || !shapes_agree(&have, &shape)) {
            return ls_session_set_error(s, LS_ERR_SHAPE,
                                        "parameter \"%s\": it exists with another dtype or shape", name),
                   NULL;
        }
        return ls_var_value(s, var);
    }
    if (dtype != LS_F32 || !fixed_numel(&shape, &n)) {
        return ls_session_set_error(s, LS_ERR_DTYPE, "parameter \"%s\": expected f32 and fixed extents of 0 or more", name), NULL;
    }
    var = make_var(s, params, name, &shape, n, how);
    if (!var) {
        return NULL;
    }
    if (!ls_array_push(params->heap, &params->vars, var)) {
        ls_var_destroy(var);
        return ls_session_set_error(s, LS_ERR_MEMORY, "parameter \"%s\": out of memory", name), NULL;
    }
    return ls_var_value(s, var);
}

ls_tensor *ls_param(ls_session *s, ls_params *params, const char *name, ls_dtype dtype, ls_shape shape,
                    ls_init init, int64_t fan_in) {
    return param(s, params, name, dtype, shape, &(start){init, fan_in > 0 ? (double)fan_in : 1, NULL});
}

ls_tensor *ls_param_of(ls_session *s, ls_params *params, const char *name, const ls_data *first) {
    ls_shape shape = ls_shape_make(ls_data_rank(first), ls_data_dims(first));
    return param(s, params, name, ls_data_dtype(first), shape, &(start){LS_INIT_ZEROS, 1, first});
}

/* ---- files ---- */

ls_status ls_vars_load(ls_session *session, ls_var *const *vars, int count, ls_archive *archive,
                       const char *path, ls_error *err) {
    ls_heap *heap = ls_context_heap(ls_session_context(session));
    ls_data **data = ls_alloc_zeroed(heap, sizeof *data * (size_t)(count + 1));
    ls_status status = data ? LS_OK : LS_FAIL_MEMORY(err, "the weights");
    for (int i = 0; i < count && status == LS_OK;
         i++) { /* first all of them, so that nothing changes unless all of it can */
        ls_shape shape = ls_var_shape(vars[i]);
        status = get_array(archive, path, ls_var_name(vars[i]), ls_var_dtype(vars[i]), &shape, &data[i], err);
    }
    for (int i = 0; i < count && status == LS_OK; i++) {
        status = ls_var_write(session, vars[i], ls_data_bytes(data[i]), ls_data_size(data[i]));
        if (status != LS_OK) {
            LS_FAIL(err, status, "%s: %s", path, ls_session_error(session)->message);
        }
    }
    for (int i = 0; data && i < count; i++) {
        ls_data_release(data[i]);
    }
    ls_free(heap, data);
    return status;
}

/* The first array that is no parameter; none where an optimiser's state lies beside them. */
static const char *left_over(const ls_params *params, const ls_archive *archive) {
    bool training = ls_archive_metadata(archive, "lockstep.training") != NULL;
    for (int i = 0; i < ls_archive_count(archive) && !training; i++) {
        if (!ls_params_find(params, ls_archive_name(archive, i))) {
            return ls_archive_name(archive, i);
        }
    }
    return NULL;
}
const char *ls_params_left(const ls_params *params) {
    return params->archive ? left_over(params, params->archive) : NULL;
}

static ls_status load_archive(ls_session *session, ls_params *params, ls_archive *archive, const char *path, ls_error *err) {
    const char *left = left_over(params, archive);
    if (left) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: \"%s\" is no parameter of this network, whose first is \"%s\"", path, left,
                       params->vars.len ? ls_var_name(params->vars.data[0]) : "(none)");
    }
    return ls_vars_load(session, params->vars.data, (int)params->vars.len, archive, path, err);
}

ls_status ls_params_load(ls_session *session, ls_params *params, const char *path, ls_error *err) {
    ls_archive *archive = NULL;
    LS_TRY(err, ls_archive_open(ls_session_context(session), path, &archive, err));
    ls_status status = load_archive(session, params, archive, path, err);
    ls_archive_close(archive);
    return status;
}
ls_status ls_params_load_data(ls_session *session, ls_params *params, const char *name, ls_data *file, ls_error *err) {
    ls_archive *archive = NULL;
    LS_TRY(err, ls_archive_open_data(ls_session_context(session), name, file, &archive, err));
    ls_status status = load_archive(session, params, archive, name, err);
    ls_archive_close(archive);
    return status;
}

/* `out_file` NULL: to the file at `path`. */
static ls_status save_vars(ls_session *session, ls_var *const *vars, int count, int n_metadata, const ls_metadata *metadata,
                           const char *path, ls_data **out_file, ls_error *err) {
    ls_context *context = ls_session_context(session);
    ls_heap *heap = ls_context_heap(context);
    ls_named_data *arrays = ls_alloc_zeroed(heap, sizeof *arrays * (size_t)(count + 1));
    ls_status status = arrays ? LS_OK : LS_FAIL_MEMORY(err, "the weights");
    for (int i = 0; i < count && status == LS_OK; i++) {
        ls_data *data = NULL;
        status = ls_data_from_var(session, vars[i], &data);
        if (status != LS_OK) {
            LS_FAIL(err, status, "%s: %s", path, ls_session_error(session)->message);
        }
        arrays[i] = (ls_named_data){ls_var_name(vars[i]), data};
    }
    if (status == LS_OK) {
        status = out_file ? ls_safetensors_encode(context, count, arrays, n_metadata, metadata, out_file, err)
                          : ls_safetensors_save(context, path, count, arrays, n_metadata, metadata, err);
    }
    for (int i = 0; arrays && i < count; i++) {
        ls_data_release((ls_data *)arrays[i].data);
    }
    ls_free(heap, arrays);
    return status;
}

ls_status ls_vars_save(ls_session *session, ls_var *const *vars, int count, int n_metadata, const ls_metadata *metadata,
                       const char *path, ls_error *err) {
    return save_vars(session, vars, count, n_metadata, metadata, path, NULL, err);
}
ls_status ls_vars_encode(ls_session *session, ls_var *const *vars, int count, int n_metadata, const ls_metadata *metadata,
                         ls_data **out_file, ls_error *err) {
    return save_vars(session, vars, count, n_metadata, metadata, "safetensors in memory", out_file, err);
}

ls_status ls_params_save(ls_session *session, ls_params *params, const char *path, ls_error *err) {
    return ls_vars_save(session, params->vars.data, (int)params->vars.len, 0, NULL, path, err);
}

static int by_name(const void *a, const void *b) {
    return strcmp(ls_var_name(*(ls_var *const *)a), ls_var_name(*(ls_var *const *)b));
}

/* name NUL, dtype's name NUL, rank and each extent as 8 bytes little-endian, the elements. */
static ls_status add_var(ls_sha256 *sha, ls_session *session, ls_var *var, ls_error *err) {
    ls_data *data = NULL;
    ls_status status = ls_data_from_var(session, var, &data);
    if (status != LS_OK) {
        return LS_FAIL(err, status, "%s", ls_session_error(session)->message);
    }
    const char *dtype = ls_dtype_name(ls_data_dtype(data));
    ls_sha256_add(sha, ls_var_name(var), strlen(ls_var_name(var)) + 1);
    ls_sha256_add(sha, dtype, strlen(dtype) + 1);
    for (int i = -1; i < ls_data_rank(data); i++) {
        uint64_t n = (uint64_t)(i < 0 ? ls_data_rank(data) : ls_data_dims(data)[i]);
        uint8_t bytes[8];
        for (int b = 0; b < 8; b++) {
            bytes[b] = (uint8_t)(n >> 8 * b);
        }
        ls_sha256_add(sha, bytes, 8);
    }
    ls_sha256_elements(sha, ls_data_dtype(data), ls_data_bytes(data), ls_data_numel(data));
    ls_data_release(data);
    return LS_OK;
}

ls_status ls_params_sha256(ls_session *session, ls_params *params, char out_hex[65], ls_error *err) {
    size_t n = params->vars.len;
    ls_var **sorted = ls_alloc(params->heap, sizeof *sorted * (n + 1));
    if (!sorted) {
        return LS_FAIL_MEMORY(err, "a hash of the weights");
    }
    memcpy(sorted, params->vars.data, sizeof *sorted * n);
    qsort(sorted, n, sizeof *sorted, by_name);
    ls_sha256 sha;
    ls_sha256_init(&sha);
    ls_status status = LS_OK;
    for (size_t i = 0; i < n && status == LS_OK; i++) {
        status = add_var(&sha, session, sorted[i], err);
    }
    ls_free(params->heap, sorted);
    ls_sha256_hex(&sha, out_hex);
    return status;
}
