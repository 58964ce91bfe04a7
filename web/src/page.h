/* The library as a page calls it: plain functions of WebAssembly over the public API, which lockstep.js wraps.
 *
 * Every function that returns an ls_status may return LS_ERR_AGAIN when the device has not answered yet; it has then
 * changed nothing that shows, and is called again with the same arguments. Handles are opaque. What is not numbers comes
 * back as JSON text through page_report, in pieces that the caller throws away when the call ends in LS_ERR_AGAIN. One
 * thread, one page.
 * */
#ifndef LOCKSTEP_WEB_PAGE_H
#define LOCKSTEP_WEB_PAGE_H

#include <cjson/cJSON.h>
#include <lockstep/lockstep.h>
#include <stdbool.h>

#if defined(__wasm__)
#define PAGE_EXPORT(name) __attribute__((export_name(#name)))
#define PAGE_IMPORT(name) __attribute__((import_module("page"), import_name(#name)))
#else
#define PAGE_EXPORT(name)
#define PAGE_IMPORT(name)
#endif

/* ---- what the host gives ---- */
PAGE_IMPORT(report) void page_report(const char *text, size_t size); /* one piece of JSON */
PAGE_IMPORT(log) void page_log(int level, const char *text, size_t size);

/* ---- the page: one context (page.c) ---- */
PAGE_EXPORT(page_open) ls_status page_open(void);
PAGE_EXPORT(page_close) void page_close(void); /* after all that was opened in it */
PAGE_EXPORT(page_alloc) void *page_alloc(size_t size); /* NULL when there is no memory */
PAGE_EXPORT(page_free) void page_free(void *ptr);
PAGE_EXPORT(page_message) const char *page_message(void); /* of the last call that failed */
PAGE_EXPORT(page_status_name) const char *page_status_name(int status);
PAGE_EXPORT(page_about) ls_status page_about(void); /* {"version", "contract", "networks", "cases", "rows", "faults"} */
PAGE_EXPORT(page_devices) ls_status page_devices(void); /* as `lockstep devices --json` */
PAGE_EXPORT(page_memory) double page_memory(void);      /* bytes of host memory that the library holds */

/* ---- networks (net.c) ---- */
typedef struct page_net page_net;
/* `weights`: the bytes of a file of arrays; NULL: the first values of `seed`. Reports {"network", "device", "math", "inputs",
 * "outputs"}. */
PAGE_EXPORT(page_net_open)
ls_status page_net_open(const char *network, const void *weights, size_t size, const char *device, const char *math, double seed,
                        page_net **out_net);
PAGE_EXPORT(page_net_close) void page_net_close(page_net *net);
/* images f32 [batch,1,28,28] to logits f32 [batch,10], and 64 hex digits of their SHA-256 with a NUL. */
PAGE_EXPORT(page_net_run)
ls_status page_net_run(page_net *net, int32_t batch, const float *images, float *out_logits, char *out_hex);
/* The oracle's logits for the images: a middle and a radius for each. */
PAGE_EXPORT(page_net_oracle)
ls_status page_net_oracle(page_net *net, int32_t batch, const float *images, double *out_middle, double *out_radius);
PAGE_EXPORT(page_net_verify) ls_status page_net_verify(page_net *net, int32_t batch, const float *images); /* as `lockstep verify --json` */
PAGE_EXPORT(page_net_sha256) ls_status page_net_sha256(page_net *net, char *out_hex);

/* ---- training (train.c) ---- */
typedef struct page_train page_train;
/* `options` is JSON, `state` what page_train_encode or `lockstep train --save` made, or NULL. The images are u8
 * [count,28,28], the labels u8 [count]; both are copied. Reports {"network", ..., "step", "steps"}. */
PAGE_EXPORT(page_train_open)
ls_status page_train_open(const char *options, const uint8_t *images, const uint8_t *labels, int32_t count, const void *state,
                          size_t size, page_train **out_train);
PAGE_EXPORT(page_train_close) void page_train_close(page_train *train);
PAGE_EXPORT(page_train_step) ls_status page_train_step(page_train *train, double *out_loss);
/* Images to test on. */
typedef struct page_test page_test;
PAGE_EXPORT(page_test_open)
ls_status page_test_open(const uint8_t *images, const uint8_t *labels, int32_t count, page_test **out_test);
PAGE_EXPORT(page_test_close) void page_test_close(page_test *test);
/* One batch of them, from 0: how many there are, 0 behind the last, and how many are told right. */
PAGE_EXPORT(page_train_test)
ls_status page_train_test(page_train *train, page_test *test, int32_t batch, int32_t *out_count, int32_t *out_right);
/* The weights as safetensors; `whole`: with all that page_train_open needs to go on. The bytes live until the next call. */
PAGE_EXPORT(page_train_encode)
ls_status page_train_encode(page_train *train, int whole, const void **out_bytes, size_t *out_size);
PAGE_EXPORT(page_train_sha256) ls_status page_train_sha256(page_train *train, char *out_hex);

/* ---- checking a device (check.c); each reports rows as `lockstep check --json` has them ---- */
PAGE_EXPORT(page_check_certify) ls_status page_check_certify(const char *device);
PAGE_EXPORT(page_check_case) ls_status page_check_case(const char *device, const char *name, const char *plant); /* "": none */
PAGE_EXPORT(page_check_row) ls_status page_check_row(const char *device, int32_t number, const char *math, const char *plant);
PAGE_EXPORT(page_check_functions) ls_status page_check_functions(const char *device);

/* ---- what the files share (page.c) ---- */
ls_context *page_context(void);
void page_begin(ls_session *session); /* of a call: forgets the last error; `session` may be NULL */
ls_status page_fail(ls_status status, const char *fmt, ...) LS_PRINTF(2, 3); /* keeps a message; returns status */
/* What a call of a session returned, or LS_ERR_INTERNAL where it returned NULL; LS_ERR_AGAIN stays what it is. */
ls_status page_fail_session(ls_session *session, ls_status status);
ls_status page_send(cJSON *root); /* reports and deletes it; NULL is LS_ERR_MEMORY */
bool page_math(const char *name, ls_math *out_math); /* false, with a message, for no kind of arithmetic */
/* A session in a kind of arithmetic on a device, certified if it is to be locked. */
ls_status page_session(const char *device, const char *math, ls_session **out_session);
extern const char *const page_math_names[]; /* by ls_math, ending in NULL */

#endif
