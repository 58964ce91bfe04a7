/* Parts of JSON reports. */
#include "cli/report.h"

const char *report_locked(const ls_device_info *d) {
    return !d->available ? "missing" : d->locked > 0 ? "certified" : "refused";
}

cJSON *report_device(const char *id, const ls_caps *c, const char *locked) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", id);
    cJSON_AddStringToObject(o, "name", c->name);
    cJSON_AddStringToObject(o, "locked", locked);
    cJSON *caps = cJSON_AddObjectToObject(o, "caps");
    cJSON_AddStringToObject(caps, "isa", c->isa);
    cJSON_AddStringToObject(caps, "driver", c->driver);
    cJSON_AddStringToObject(caps, "uuid", c->uuid);
    cJSON_AddStringToObject(caps, "arithmetic", c->arithmetic);
    cJSON_AddNumberToObject(caps, "threads", c->threads);
    cJSON_AddNumberToObject(caps, "subgroup", c->subgroup);
    cJSON_AddNumberToObject(caps, "shared_bytes", (double)c->shared_bytes);
    cJSON_AddNumberToObject(caps, "memory_bytes", (double)c->memory_bytes);
    cJSON *dtypes = cJSON_AddArrayToObject(caps, "dtypes");
    for (int i = 0; i < LS_DTYPE_COUNT; i++) {
        if (c->dtypes >> i & 1) {
            cJSON_AddItemToArray(dtypes, cJSON_CreateString(ls_dtype_name((ls_dtype)i)));
        }
    }
    return o;
}

const ls_report *report_wrong(const ls_kernel_report *k) {
    return k->ref_done && k->ref.verdict == LS_DIFFERS ? &k->ref : &k->oracle;
}

cJSON *report_divergence(const ls_verification *v) {
    const ls_kernel_report *k = v->first_divergence >= 0 ? &v->kernels[v->first_divergence] : NULL;
    const ls_report *r = k ? report_wrong(k) : v->end_to_end.verdict == LS_DIFFERS ? &v->end_to_end : NULL;
    if (!r) {
        return cJSON_CreateNull();
    }
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "kernel", k ? k->kernel : "end to end");
    cJSON_AddStringToObject(o, "node", k ? k->node : "output");
    cJSON *index = cJSON_AddArrayToObject(o, "index");
    for (int i = 0; i < r->rank; i++) {
        cJSON_AddItemToArray(index, cJSON_CreateNumber((double)r->first_index[i]));
    }
    cJSON_AddStringToObject(o, "expected", r->first_expected);
    cJSON_AddStringToObject(o, "got", r->first_actual);
    return o;
}

const char *report_verdict(ls_verdict verdict) {
    static const char *const verdicts[] = {"same", "within bound", "differs"};
    return verdicts[verdict];
}

cJSON *report_comparison(const ls_report *r) {
    cJSON *o = cJSON_CreateObject();
    int n = LS_BINS;
    cJSON_AddStringToObject(o, "verdict", report_verdict(r->verdict));
    cJSON_AddNumberToObject(o, "elements", (double)r->elements);
    cJSON_AddNumberToObject(o, "different", (double)r->different);
    cJSON_AddNumberToObject(o, "outside", (double)r->outside);
    cJSON_AddNumberToObject(o, "blind", (double)r->blind);
    cJSON_AddNumberToObject(o, "worst_of_bound", r->worst_of_bound);
    cJSON *bins = cJSON_AddArrayToObject(o, "bins");
    while (n > 0 && !r->bins[n - 1]) {
        n--;
    }
    for (int i = 0; i < n; i++) {
        cJSON_AddItemToArray(bins, cJSON_CreateNumber((double)r->bins[i]));
    }
    if (r->verdict == LS_DIFFERS) {
        cJSON *index = cJSON_AddArrayToObject(o, "index");
        for (int i = 0; i < r->rank; i++) {
            cJSON_AddItemToArray(index, cJSON_CreateNumber((double)r->first_index[i]));
        }
        cJSON_AddStringToObject(o, "expected", r->first_expected);
        cJSON_AddStringToObject(o, "got", r->first_actual);
        cJSON_AddStringToObject(o, "message", r->message);
    }
    return o;
}

cJSON *report_kernel(const ls_kernel_report *k) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "kernel", k->kernel);
    cJSON_AddStringToObject(o, "node", k->node);
    cJSON_AddNumberToObject(o, "number", k->number);
    cJSON_AddNumberToObject(o, "launches", k->launches);
    cJSON_AddStringToObject(o, "operations", k->operations);
    cJSON_AddStringToObject(o, "type", k->type);
    cJSON *origins = cJSON_AddArrayToObject(o, "origins"), *reads = cJSON_AddArrayToObject(o, "reads");
    for (int i = 0; i < k->n_origins; i++) {
        cJSON_AddItemToArray(origins, cJSON_CreateString(k->origins[i]));
    }
    for (int i = 0; i < k->n_reads; i++) {
        cJSON *r = cJSON_CreateObject();
        cJSON_AddItemToObject(r, "kernel", k->reads[i].kernel < 0 ? cJSON_CreateNull() : cJSON_CreateNumber(k->reads[i].kernel));
        cJSON_AddStringToObject(r, "name", k->reads[i].name);
        cJSON_AddStringToObject(r, "type", k->reads[i].type);
        cJSON_AddItemToArray(reads, r);
    }
    cJSON_AddItemToObject(o, "ref", k->ref_done ? report_comparison(&k->ref) : cJSON_CreateNull());
    cJSON_AddItemToObject(o, "oracle", report_comparison(&k->oracle));
    return o;
}
