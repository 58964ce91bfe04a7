/* Parts of JSON reports. */
#include "cli/report.h"

cJSON *report_device(const char *id, const ls_caps *c, bool certified) {
    cJSON *o = cJSON_CreateObject();
    cJSON_AddStringToObject(o, "id", id);
    cJSON_AddStringToObject(o, "name", c->name);
    cJSON_AddStringToObject(o, "locked", certified ? "certified" : "refused");
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
