/* Layers and the built-in networks. */
#include <lockstep/nn.h>
#include <stdio.h>
#include <string.h>

static ls_tensor *named(ls_session *s, ls_params *p, const char *layer, const char *part, ls_shape shape,
                        ls_init init, int64_t fan_in) {
    char name[256];
    if (snprintf(name, sizeof name, "%s.%s", layer, part) >= (int)sizeof name) {
        ls_session_set_error(s, LS_ERR_INVALID, "layer \"%.64s...\": expected a name of at most 240 bytes",
                             layer);
        return NULL;
    }
    return ls_param(s, p, name, LS_F32, shape, init, fan_in);
}

/* The extent of x's axis, which must be fixed; 0 with an error when it is not. */
static int64_t extent(ls_session *s, const char *layer, const ls_tensor *x, int rank, int axis) {
    if (!layer || !x) {
        ls_session_set_error(s, LS_ERR_INVALID, "layer \"%s\": its %s is NULL", layer ? layer : "", layer ? "input" : "name");
        return 0;
    }
    ls_shape shape = ls_tensor_shape(x);
    if (rank ? shape.rank != rank : shape.rank < 1) {
        ls_session_set_error(s, LS_ERR_SHAPE, "layer \"%s\": the input has rank %d: expected %s%d", layer,
                             shape.rank, rank ? "" : "at least ", rank ? rank : 1);
        return 0;
    }
    ls_dim dim = shape.dim[axis < 0 ? shape.rank + axis : axis];
    if (dim.symbol || dim.offset < 1) {
        ls_session_set_error(s, LS_ERR_SHAPE,
                             "layer \"%s\": axis %d of the input: expected a fixed extent of at least 1",
                             layer, axis);
        return 0;
    }
    return dim.offset;
}

/* A layer makes its weight before its bias, in statements of their own: the order of parameters is visible (the norm
 * of all gradients is summed in it), and C leaves the order of arguments to the compiler. */
ls_tensor *ls_nn_linear(ls_session *s, ls_params *p, const char *name, ls_tensor *x, int64_t out_features) {
    int64_t in = extent(s, name, x, 0, -1);
    if (!in) {
        return NULL;
    }
    ls_tensor *weight = named(s, p, name, "weight", LS_SHAPE(out_features, in), LS_INIT_UNIFORM, in);
    return ls_linear(s, x, weight, named(s, p, name, "bias", LS_SHAPE(out_features), LS_INIT_UNIFORM, in));
}

ls_tensor *ls_nn_conv2d(ls_session *s, ls_params *p, const char *name, ls_tensor *x, int64_t out_channels,
                        int64_t kernel, int64_t stride, int64_t padding) {
    int64_t in = extent(s, name, x, 4, 1), fan_in = in * kernel * kernel;
    if (!in) {
        return NULL;
    }
    if (kernel < 1) {
        ls_session_set_error(s, LS_ERR_SHAPE, "layer \"%s\": kernel %lld: expected at least 1", name, (long long)kernel);
        return NULL;
    }
    ls_conv_spec spec = {.spatial = 2,
                         .stride = {stride, stride},
                         .pad_low = {padding, padding},
                         .pad_high = {padding, padding}};
    ls_shape shape = LS_SHAPE(out_channels, in, kernel, kernel);
    ls_tensor *weight = named(s, p, name, "weight", shape, LS_INIT_UNIFORM, fan_in);
    return ls_conv(s, x, weight, named(s, p, name, "bias", LS_SHAPE(out_channels), LS_INIT_UNIFORM, fan_in),
                   &spec);
}

ls_tensor *ls_nn_layer_norm(ls_session *s, ls_params *p, const char *name, ls_tensor *x) {
    int64_t n = extent(s, name, x, 0, -1);
    if (!n) {
        return NULL;
    }
    ls_tensor *weight = named(s, p, name, "weight", LS_SHAPE(n), LS_INIT_ONES, 0);
    return ls_layer_norm(s, x, -1, weight, named(s, p, name, "bias", LS_SHAPE(n), LS_INIT_ZEROS, 0), 1e-5);
}

/* ---- networks ---- */

static ls_tensor *pool2(ls_session *s, ls_tensor *x) {
    const int64_t kernel[2] = {2, 2};
    ls_conv_spec spec = {.spatial = 2, .stride = {2, 2}};
    return ls_max_pool(s, x, kernel, &spec);
}

/* [N, C, H, W] -> [N, C*H*W]; N may be a symbol. */
static ls_tensor *flatten(ls_session *s, ls_tensor *x) {
    if (!x) {
        return NULL;
    }
    ls_shape from = ls_tensor_shape(x), to = {.rank = 2, .dim = {from.dim[0], ls_dim_of(1)}};
    for (int i = 1; i < from.rank; i++) {
        to.dim[1].offset *= from.dim[i].offset;
    }
    return ls_reshape(s, x, to);
}

static ls_tensor *mnist_cnn(ls_session *s, ls_params *p, ls_tensor *x) {
    x = ls_relu(s, ls_nn_conv2d(s, p, "conv1", x, 32, 3, 1, 0));
    x = ls_relu(s, ls_nn_conv2d(s, p, "conv2", x, 64, 3, 1, 0));
    x = flatten(s, pool2(s, x));
    return ls_nn_linear(s, p, "fc2", ls_relu(s, ls_nn_linear(s, p, "fc1", x, 128)), 10);
}

static ls_tensor *mnist_small(ls_session *s, ls_params *p, ls_tensor *x) {
    x = pool2(s, ls_relu(s, ls_nn_conv2d(s, p, "conv1", x, 8, 3, 1, 0)));
    x = pool2(s, ls_relu(s, ls_nn_conv2d(s, p, "conv2", x, 16, 3, 1, 0)));
    return ls_nn_linear(s, p, "fc2", ls_relu(s, ls_nn_linear(s, p, "fc1", flatten(s, x), 64)), 10);
}

static const char *const network_names[] = {"mnist:cnn", "mnist:small", NULL};
static ls_tensor *(*const network_builders[])(ls_session *, ls_params *, ls_tensor *) = {mnist_cnn,
                                                                                         mnist_small};

const char *const *ls_nn_networks(void) {
    return network_names;
}

ls_tensor *ls_nn_network(ls_session *s, ls_params *p, const char *name, ls_tensor *x) {
    for (int i = 0; network_names[i]; i++) {
        if (strcmp(name, network_names[i]) == 0) {
            return network_builders[i](s, p, x);
        }
    }
    ls_session_set_error(s, LS_ERR_INVALID, "no built-in network \"%s\": expected mnist:cnn or mnist:small",
                         name);
    return NULL;
}
