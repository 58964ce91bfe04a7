/* Shadowing: every kernel of a run against the references, on its own inputs. */
#ifndef LOCKSTEP_VERIFY_SHADOW_H
#define LOCKSTEP_VERIFY_SHADOW_H

#include "engine/session.h"
#include "oracle/oracle.h"
#include "verify/data.h"

/* Memory that a kernel of a verified run wrote last. */
typedef struct ls_written {
    const ls_device *device;
    uint64_t buffer; /* its serial */
    size_t from, to;
    int kernel;
} ls_written;

/* Where a verified run collects what it finds, instead of failing at the first wrong kernel. */
typedef struct ls_collector {
    ls_heap *heap;
    LS_ARRAY(ls_kernel_report) kernels; /* texts and lists are the heap's, origins the session's */
    LS_ARRAY(uint64_t) serials;         /* of their roots */
    LS_ARRAY(ls_written) written;
} ls_collector;

/* Adds what was found of a launch. */
ls_status ls_collect(const ls_check_event *event, ls_collector *collector, const ls_kernel_report *found, ls_error *err) LS_MUST_USE;
/* The kernel that wrote there last; -1: none. */
int ls_collector_writer(const ls_collector *collector, const ls_buffer *buffer, size_t from, size_t size);
/* Releases what the kernels hold, and the lists but for the kernels. */
void ls_collector_free(ls_collector *collector);
void ls_kernel_report_free(ls_heap *heap, ls_kernel_report *kernel);

/* The worse of two reports on one kernel: wrong ones first, then by share of the bound; counts add up. */
void ls_report_merge(ls_report *into, const ls_report *r);

/* Compares an array with the oracle's values: integers exactly where they are decided, floats by bound. */
ls_verdict ls_compare_balls(const ls_data *actual, const ls_balls *balls, ls_report *out_report);

#endif
