/* Faults planted on purpose. Each mutates the specs that one device is given to compile, so the run itself
 * goes wrong, as it would by a wrong template, renderer or driver; the references go by the right specs. */
#include "verify/museum.h"
#include <string.h>

enum {
    CONTRACTS = 1 << LS_V_CONTRACT,
    REDUCES = 1 << LS_V_REDUCE,
    SCANS = 1 << LS_V_SCAN,
    SORTS = 1 << LS_V_SORT,
    LOADS = 1 << LS_V_LOAD
};

const ls_fault ls_faults[] = {
    {"matmul-writes-nothing", "0-fc1-zeros", "a matrix product's kernel stores nothing", LS_MUTATE_STORE_DROP,
     LS_FAULT_FIRST, 0, CONTRACTS, 0},
    {"zero-matmul", "0a-attention-zeros", "a matrix product's kernel stores zeros", LS_MUTATE_STORE_ZERO,
     LS_FAULT_FIRST, 0, CONTRACTS, 0},
    {"tail-row-zero", "0b-tail-rows", "the last row of a matrix is read as zeros", LS_MUTATE_LOAD_SHORT,
     LS_FAULT_LEFT, 0, CONTRACTS, 0},
    {"short-depth", "0b-ones", "the last step of a contraction is left out", LS_MUTATE_BOUND_SHORT,
     LS_FAULT_FIRST, 0, CONTRACTS, 0},
    {"rows-corrupt", "0b-thin", "results are stored one element further", LS_MUTATE_STORE_INDEX,
     LS_FAULT_FIRST, 0, CONTRACTS, 0},
    {"one-image-for-all", "0d-ten-digits", "a contraction reads image 0 for every image", LS_MUTATE_LOAD_AXIS,
     LS_FAULT_LEFT, 0, CONTRACTS, 0},
    {"unswapped-strides", "1-swap-dims", "a reduction reads with the strides from before a swap of axes",
     LS_MUTATE_LOAD_DENSE, LS_FAULT_LEFT, 0, REDUCES, 0},
    {"reduced-along-another-axis", "1a-permutations",
     "a reduction's operand is read with two strides exchanged", LS_MUTATE_LOAD_SWAP, LS_FAULT_LEFT, 0,
     REDUCES, 0},
    {"norm-unswapped", "1b-norm-block", "a norm reads as if its axes had not been swapped",
     LS_MUTATE_LOAD_DENSE, LS_FAULT_LEFT, 0, REDUCES, 0},
    {"weights-reordered", "1b-other-device", "weights are read in another order than they were written",
     LS_MUTATE_LOAD_SWAP, LS_FAULT_RIGHT, 0, CONTRACTS, 0},
    {"differentiated-drifts", "1c-differentiated",
     "kernels that also keep a value for the backward pass compute with another constant", LS_MUTATE_CONST,
     LS_FAULT_FIRST, 0, 0, 2},
    {"filter-as-hcf", "2-filter-layout", "a filter [C,H,F] is read as [H,C,F]", LS_MUTATE_LOAD_SWAP,
     LS_FAULT_RIGHT, -1, CONTRACTS, 0},
    {"filter-order-transposed", "2a-filter-orders", "a filter's first two axes are read exchanged",
     LS_MUTATE_LOAD_SWAP, LS_FAULT_RIGHT, 0, CONTRACTS, 0},
    {"stride-on-the-wrong-axis", "2b-weight-gradient", "the stride of one axis is applied to another",
     LS_MUTATE_LOAD_SWAP, LS_FAULT_LEFT, -1, CONTRACTS, 0},
    {"padded-before-permuted", "2c-padded", "padding is applied before the axes are permuted",
     LS_MUTATE_LOAD_SWAP, LS_FAULT_LEFT, -1, CONTRACTS, 0},
    {"flip-forgotten", "2d-input-gradient", "a filter is not turned round on one axis", LS_MUTATE_LOAD_FLIP,
     LS_FAULT_RIGHT, -1, CONTRACTS, 0},
    {"second-operand-dropped", "3-one-device", "a sum gives its first operand", LS_MUTATE_IGNORE,
     LS_FAULT_FIRST, 0, 0, 0},
    {"first-operand-dropped", "3-two-devices", "a sum gives its second operand", LS_MUTATE_IGNORE,
     LS_FAULT_FIRST, 1, 0, 0},
    {"off-by-one-range", "4a-im2col-plane", "a range ends one early", LS_MUTATE_PRED_LIMIT, LS_FAULT_FIRST, 1,
     0, 0},
    {"tail-of-zeros", "4b-im2col-line", "the end of a line is read as zeros", LS_MUTATE_LOAD_SHORT,
     LS_FAULT_FIRST, -1, 0, 0},
    {"out-of-range-read", "4c-im2col-reported", "a predicate is dropped: padding reads what lies beside",
     LS_MUTATE_PRED_DROP, LS_FAULT_FIRST, 0, 0, 0},
    {"geometry-of-another-kernel", "4d-im2col-wide",
     "a kernel reads one element further than it was launched for", LS_MUTATE_LOAD_SHIFT, LS_FAULT_FIRST, 0,
     0, 0},
    {"padding-on-the-wrong-axis", "4e-asymmetric", "one axis is padded as another", LS_MUTATE_PRED_SHIFT,
     LS_FAULT_FIRST, 0, 0, 0},
    {"abort", "4f-conv-transpose-1d", "a kernel is refused instead of run", LS_MUTATE_STORE_DROP,
     LS_FAULT_REFUSED, 0, CONTRACTS, 0},
    {"bad-parameters-accepted", "4g-bad-parameters", "any parameter is taken as the default",
     LS_MUTATE_STORE_DROP, LS_FAULT_CASE, 0, 0, 0},
    {"block-forgotten", "row-columns", "the last element of a long column is left out of its sum",
     LS_MUTATE_BOUND_SHORT, LS_FAULT_FIRST, 0, REDUCES, 0},
    {"scan-exclusive", "row-scan", "a running sum leaves its own element out", LS_MUTATE_SCAN, LS_FAULT_FIRST,
     0, SCANS, 0},
    {"sort-ascending", "row-sort", "a sort runs the other way", LS_MUTATE_SCAN, LS_FAULT_FIRST, 0, SORTS, 0},
    {"scatter-overwrites", "row-indexed", "a scatter that adds keeps the last update alone",
     LS_MUTATE_STORE_COMBINE, LS_FAULT_FIRST, 0, 0, 0},
    {"pool-shifted", "row-pool", "a pooling window lies one element off", LS_MUTATE_PRED_SHIFT,
     LS_FAULT_FIRST, 0, REDUCES, 0},
    {"counter-off", "row-random", "the counter of random bits starts at one", LS_MUTATE_INDEX_VALUE,
     LS_FAULT_FIRST, 0, 0, 0},
    {0},
};

/* Whether the value in question is computed from a value: through maps and guards, not through folds. */
static bool comes_from(const ls_spec *spec, int32_t id, int32_t load) {
    const ls_value *v = id >= 0 ? &spec->values[id] : NULL;
    return v && (id == load || ((v->op == LS_V_MAP || v->op == LS_V_GUARD) &&
                                (comes_from(spec, v->a, load) || comes_from(spec, v->b, load) ||
                                 comes_from(spec, v->c, load))));
}

static bool site_fits(const ls_spec *spec, const ls_fault *f, int site) {
    bool right = f->site == LS_FAULT_RIGHT;
    for (int i = 0; f->site != LS_FAULT_FIRST && i < spec->n_values; i++) {
        const ls_value *v = &spec->values[i];
        if ((v->op == LS_V_CONTRACT || (!right && v->op == LS_V_REDUCE)) &&
            comes_from(spec, right ? v->b : v->a, site)) {
            return true;
        }
    }
    return f->site == LS_FAULT_FIRST;
}

static bool kernel_fits(const ls_spec *spec, const ls_fault *f) {
    int holds = 0;
    for (int i = 0; i < spec->n_values; i++) {
        holds |= 1 << spec->values[i].op;
    }
    return (f->kernels == 0 || holds & f->kernels) && spec->n_stores >= f->stores;
}

ls_status ls_fault_find(const char *name, const ls_fault **out_fault, ls_error *err) {
    const ls_fault *f = ls_faults;
    while (name && f->name && strcmp(f->name, name) != 0) {
        f++;
    }
    *out_fault = name && f->name ? f : NULL;
    return name && !f->name ? LS_FAIL(err, LS_ERR_INVALID, "no fault is called \"%.80s\"; lockstep check --plant list lists them", name) : LS_OK;
}

ls_status ls_fault_plant(void *user, ls_arena *arena, const ls_spec *spec, ls_spec *out_spec, ls_error *err) {
    const ls_fault *f = user;
    int sites = f->site < LS_FAULT_REFUSED && kernel_fits(spec, f) ? ls_mutator_sites(spec, f->mutator) : 0;
    if (f->site == LS_FAULT_REFUSED && kernel_fits(spec, f)) {
        return LS_FAIL(err, LS_ERR_UNSUPPORTED, "kernel %s: this fault refuses it", spec->name);
    }
    for (int site = 0; site < sites; site++) {
        int n = site_fits(spec, f, site) ? ls_mutator_variants(spec, f->mutator, site) : 0;
        ls_mutation mutation = {f->mutator, site, f->variant < 0 ? n + f->variant : f->variant};
        if (mutation.variant >= 0 && mutation.variant < n) {
            return ls_spec_mutate(arena, spec, &mutation, out_spec, err);
        }
    }
    *out_spec = *spec;
    return LS_OK;
}

ls_status ls_device_plant(ls_device *device, const char *fault, ls_error *err) {
    const ls_fault *f;
    LS_TRY(err, ls_fault_find(fault, &f, err));
    device->context->planted = (ls_spec_fault){device, ls_fault_plant, (void *)f};
    ls_engine_set_fault(device->context, f ? &device->context->planted : NULL);
    return LS_OK;
}
