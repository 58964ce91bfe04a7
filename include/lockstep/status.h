/* Status codes and error records.
 *
 * Every function that can fail returns an ls_status, or NULL where it returns a handle. The story of a
 * failure (what, where, what was expected) is in an ls_error: the caller's own for functions that take one,
 * else the session's (ls_session_error). An ls_error is plain data, owned by whoever declared it, used by one
 * thread at a time.
 * */
#ifndef LOCKSTEP_STATUS_H
#define LOCKSTEP_STATUS_H

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define LS_API __declspec(dllexport)
#elif defined(__GNUC__)
#define LS_API __attribute__((visibility("default")))
#else
#define LS_API
#endif

#if defined(__GNUC__)
#define LS_MUST_USE __attribute__((warn_unused_result))
#define LS_PRINTF(fmt, first) __attribute__((format(printf, fmt, first)))
#else
#define LS_MUST_USE
#define LS_PRINTF(fmt, first)
#endif

typedef enum ls_status {
    LS_OK = 0,
    LS_ERR_INVALID,     /* a parameter is out of its domain */
    LS_ERR_SHAPE,       /* shapes do not fit the operation */
    LS_ERR_DTYPE,       /* data types do not fit the operation */
    LS_ERR_DEVICE,      /* no such device, refused, lost, or operands of two devices */
    LS_ERR_MEMORY,      /* out of memory, or over the context's limit */
    LS_ERR_IO,          /* the operating system refused a file operation */
    LS_ERR_FORMAT,      /* a file or text is not what it claims to be */
    LS_ERR_UNSUPPORTED, /* a valid request that this build or device cannot serve */
    LS_ERR_DIFFERS,     /* two results that must agree do not */
    LS_ERR_RANGE,       /* an index met at run time is out of range */
    LS_ERR_CANCELLED,   /* the caller asked to stop */
    LS_ERR_INTERNAL,    /* a broken invariant: please report */
    LS_ERR_AGAIN        /* no failure: a device that must not be waited for (WebGPU in a page) has not answered yet. Nothing
                         * has changed; let its events happen and make the same call again */
} ls_status;

#define LS_TRAIL_MAX 8
#define LS_MESSAGE_MAX 1024

/* The first failure of a call: its code, one line of text, and the source lines it passed through, innermost
 * first. */
typedef struct ls_error {
    ls_status code;
    char message[LS_MESSAGE_MAX];
    int trail_len;
    struct {
        const char *file;
        int line;
    } trail[LS_TRAIL_MAX];
} ls_error;

/* The name of a code: "ok", "invalid", "shape", ... Never NULL. Any thread. */
LS_API const char *ls_status_name(ls_status status);

/* Empties a record. */
LS_API void ls_error_clear(ls_error *err);

#ifdef __cplusplus
}
#endif
#endif
