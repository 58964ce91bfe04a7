/* Constants of a model on a device, shared by all runners there, whatever session and thread they are of: the first that needs one
 * uploads it, the last runner takes all with it.
 *
 * A constant is known by the place in the model's messages that says it, which never moves. The copies are tensors of a session of our own, which
 * is used under the model's mutex alone; a runner has tensors of its own over the same storage. */
#include "base/thread.h"
#include "io/onnx/run.h"

struct ls_onnx_weights {
    ls_onnx_weights *next; /* of the model */
    ls_model *model;       /* not retained: runners retain it */
    ls_device *device;
    ls_session *owner;
    ls_map tensors; /* by the constant's place */
    int runners;
};

static bool same_place(const void *a, const void *b) {
    return a == b;
}
static uint64_t hash_place(const void *place) {
    return ls_hash_u64((uint64_t)(uintptr_t)place, 0);
}

static ls_onnx_weights *find(ls_model *model, const ls_device *device) {
    ls_onnx_weights *w = model->weights;
    while (w && w->device != device) {
        w = w->next;
    }
    return w;
}

static ls_status create(ls_model *model, ls_device *device, ls_onnx_weights **out_weights, ls_error *err) {
    ls_onnx_weights *w = ls_alloc_zeroed(model->heap, sizeof *w);
    if (!w) {
        return LS_FAIL_MEMORY(err, model->name);
    }
    ls_status status = ls_session_create(model->context, device, &w->owner, err);
    if (status != LS_OK) {
        ls_free(model->heap, w);
        return LS_FORWARD(err, status);
    }
    w->model = model;
    w->device = device;
    ls_map_init(&w->tensors, model->heap, same_place);
    w->next = model->weights;
    *out_weights = model->weights = w;
    return LS_OK;
}

ls_status ls_onnx_weights_acquire(ls_model *model, ls_device *device, ls_onnx_weights **out_weights, ls_error *err) {
    ls_mutex_lock(model->mutex);
    ls_onnx_weights *w = find(model, device);
    ls_status status = w ? LS_OK : create(model, device, &w, err);
    if (status == LS_OK) {
        w->runners++;
        *out_weights = w;
    }
    ls_mutex_unlock(model->mutex);
    return status;
}

void ls_onnx_weights_release(ls_onnx_weights *w) {
    if (!w) {
        return;
    }
    ls_model *model = w->model;
    ls_mutex_lock(model->mutex);
    if (--w->runners == 0) {
        ls_onnx_weights **at = &model->weights;
        while (*at != w) {
            at = &(*at)->next;
        }
        *at = w->next;
        ls_session_destroy(w->owner); /* and its tensors */
        ls_map_free(&w->tensors);
        ls_free(model->heap, w);
    }
    ls_mutex_unlock(model->mutex);
}

ls_device *ls_onnx_weights_device(const ls_onnx_weights *w) {
    return w->device;
}

/* *out NULL: it is not there, and there is nothing to make it of. */
static ls_status get(ls_onnx_weights *w, ls_session *session, const void *place, const ls_data *data, ls_tensor **out, ls_error *err) {
    ls_tensor *t = ls_map_get(&w->tensors, hash_place(place), place);
    if (!t && data) {
        t = ls_data_to_tensor(w->owner, data);
        if (!t) {
            return ls_onnx_take_error(w->owner, err);
        }
        if (!ls_map_put(&w->tensors, hash_place(place), place, t)) {
            return LS_FAIL_MEMORY(err, "the weights of a model");
        }
    }
    *out = t ? ls_tensor_share(session, t) : NULL;
    return t && !*out ? ls_onnx_take_error(session, err) : LS_OK;
}

ls_status ls_onnx_weights_get(ls_onnx_weights *w, ls_session *session, const void *place, const ls_data *data, ls_tensor **out_tensor,
                              ls_error *err) {
    *out_tensor = NULL;
    ls_mutex_lock(w->model->mutex);
    ls_status status = get(w, session, place, data, out_tensor, err);
    ls_mutex_unlock(w->model->mutex);
    return status;
}
