/* Networks: named parameters, layers that make their own, and the built-in networks.
 *
 * A network is a function that builds a tensor from an input and an ls_params. A layer takes its parameters
 * from the ls_params by name; the first time a name is met, the variable is made, with values that depend on
 * the ls_params' seed and the name alone.
 * */
#ifndef LOCKSTEP_NN_H
#define LOCKSTEP_NN_H

#include <lockstep/data.h>
#include <lockstep/ops.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ls_params ls_params;

typedef enum ls_init {
    LS_INIT_ZEROS,
    LS_INIT_ONES,
    LS_INIT_UNIFORM, /* in +-sqrt(1/fan_in), as PyTorch's linear and convolution layers start */
    LS_INIT_KAIMING  /* normal with variance 2/fan_in (He et al., 2015) */
} ls_init;

/* The parameters of one network, made on the session's device. Destroys its variables with it. */
LS_API ls_status ls_params_create(ls_session *session, uint64_t seed, ls_params **out_params) LS_MUST_USE;
/* The same with first values from a file of named arrays (io.h) instead of a seed, which costs no time for values that a load would replace. A
 * parameter that the file does not hold, or with another dtype or shape, is the session's error when a layer asks for it. */
LS_API ls_status ls_params_open(ls_session *session, const char *path, ls_params **out_params, ls_error *err) LS_MUST_USE;
/* The first array of that file that is no parameter (as a load would refuse it), once the network is built; NULL: all of them are, or the file
 * holds an optimiser's state beside them. Owned by the parameters. */
LS_API const char *ls_params_left(const ls_params *params);
LS_API void ls_params_destroy(ls_params *params);
LS_API int ls_params_count(const ls_params *params);
LS_API ls_var *ls_params_at(const ls_params *params, int index);      /* in the order they were made */
LS_API ls_var *ls_params_find(const ls_params *params, const char *name);
/* The value of a parameter, made if it is new; its dtype and shape must agree if it is not. */
LS_API ls_tensor *ls_param(ls_session *session, ls_params *params, const char *name, ls_dtype dtype, ls_shape shape, ls_init init,
                           int64_t fan_in);
/* The same with the array's dtype (f32) and shape, and its elements as first values. */
LS_API ls_tensor *ls_param_of(ls_session *session, ls_params *params, const char *name, const ls_data *first);
/* Loads every parameter from a file of named arrays (io.h); names, dtypes and shapes must agree. Names that
 * are not in the file, and arrays that are no parameter, are errors that name them. Nothing changes unless
 * all of it can. */
LS_API ls_status ls_params_load(ls_session *session, ls_params *params, const char *path, ls_error *err) LS_MUST_USE;
/* The same from a file's bytes, u8 [size] (ls_archive_open_data); `name` is for messages. */
LS_API ls_status ls_params_load_data(ls_session *session, ls_params *params, const char *name, ls_data *file, ls_error *err)
    LS_MUST_USE;
LS_API ls_status ls_params_save(ls_session *session, ls_params *params, const char *path, ls_error *err) LS_MUST_USE;
/* SHA-256 over the parameters sorted by name, each as: name, NUL, dtype's name, NUL, rank and extents as 8
 * bytes little-endian, the elements little-endian with NaNs canonical. */
LS_API ls_status ls_params_sha256(ls_session *session, ls_params *params, char out_hex[65], ls_error *err) LS_MUST_USE;

/* Layers. Parameters are NAME.weight and NAME.bias. */
LS_API ls_tensor *ls_nn_linear(ls_session *s, ls_params *p, const char *name, ls_tensor *x, int64_t out_features);
LS_API ls_tensor *ls_nn_conv2d(ls_session *s, ls_params *p, const char *name, ls_tensor *x, int64_t out_channels, int64_t kernel,
                               int64_t stride, int64_t padding);
LS_API ls_tensor *ls_nn_layer_norm(ls_session *s, ls_params *p, const char *name, ls_tensor *x);

/* A network by name: "mnist:cnn" (conv 1-32 3x3, ReLU, conv 32-64 3x3, ReLU, max-pool 2, fc 9216-128, ReLU,
 * fc 128-10) or "mnist:small" (conv 1-8 3x3, ReLU, max-pool 2, conv 8-16 3x3, ReLU, max-pool 2, fc 400-64,
 * ReLU, fc 64-10): x[N,1,28,28] -> logits[N,10]. */
LS_API ls_tensor *ls_nn_network(ls_session *s, ls_params *p, const char *name, ls_tensor *x);
/* The names of the built-in networks, ending in NULL. */
LS_API const char *const *ls_nn_networks(void);

#ifdef __cplusplus
}
#endif
#endif
