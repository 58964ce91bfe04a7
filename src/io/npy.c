/* .npy, NumPy's format 1.0 to 3.0: a magic, a header that is a Python dictionary, the elements. Fortran order and big-endian elements are
 * put right while reading. bf16, which NumPy has not, is written as '<V2' and read from 'bfloat16' and V2. */
#include "io/archive.h"
#include <stdio.h>
#include <string.h>

static const struct {
    const char *code; /* without the byte order */
    ls_dtype dtype;
} codes[] = {{"b1", LS_BOOL}, {"u1", LS_U8},  {"u2", LS_U16}, {"u4", LS_U32}, {"u8", LS_U64},
             {"i1", LS_I8},   {"i2", LS_I16}, {"i4", LS_I32}, {"i8", LS_I64}, {"f2", LS_F16},
             {"f4", LS_F32},  {"f8", LS_F64}, {"V2", LS_BF16}};
enum { N_CODES = sizeof codes / sizeof *codes };

typedef struct header {
    ls_dtype dtype;
    bool fortran, swapped;
    int rank;
    int64_t dims[LS_MAX_RANK];
} header;

/* The text after 'KEY': in the dictionary, blanks skipped; NULL when there is none. */
static const char *value_of(const char *text, const char *key) {
    char quoted[32];
    snprintf(quoted, sizeof quoted, "'%s'", key);
    const char *at = strstr(text, quoted);
    if (!at) {
        return NULL;
    }
    at += strlen(quoted);
    at += strspn(at, " ");
    if (*at != ':') {
        return NULL;
    }
    at++;
    return at + strspn(at, " ");
}

static bool parse_dtype(const char *at, header *h) {
    if (strncmp(at, "'bfloat16'", 10) == 0) {
        h->dtype = LS_BF16;
        return true;
    }
    if (at[0] != '\'' || !strchr("<>|=", at[1]) || !at[1]) {
        return false;
    }
    for (int i = 0; i < N_CODES; i++) {
        if (strncmp(at + 2, codes[i].code, 2) == 0 && at[4] == '\'') {
            h->dtype = codes[i].dtype;
            h->swapped = at[1] == '>';
            return true;
        }
    }
    return false;
}

static bool parse_shape(const char *at, header *h) {
    if (*at++ != '(') {
        return false;
    }
    for (;;) {
        at += strspn(at, " ,");
        if (*at == ')') {
            return true;
        }
        if (*at < '0' || *at > '9' || h->rank == LS_MAX_RANK) {
            return false;
        }
        int64_t n = 0;
        for (; *at >= '0' && *at <= '9'; at++) {
            if (n > INT64_MAX / 20) {
                return false;
            }
            n = n * 10 + (*at - '0');
        }
        h->dims[h->rank++] = n;
    }
}

static bool parse_header(const char *text, header *h) {
    const char *descr = value_of(text, "descr"), *order = value_of(text, "fortran_order"),
               *shape = value_of(text, "shape");
    if (!descr || !order || !shape) {
        return false;
    }
    h->fortran = strncmp(order, "True", 4) == 0;
    return (h->fortran || strncmp(order, "False", 5) == 0) && parse_dtype(descr, h) && parse_shape(shape, h);
}

/* Copies an element, its bytes turned round if the file's are. */
static void copy_element(uint8_t *to, const uint8_t *from, size_t size, bool swapped) {
    for (size_t b = 0; b < size; b++) {
        to[b] = from[swapped ? size - 1 - b : b];
    }
}

static void copy_elements(const header *h, uint8_t *to, const uint8_t *from, size_t n) {
    size_t size = ls_dtype_size(h->dtype);
    if (!h->fortran && !h->swapped) {
        memcpy(to, from, n * size);
        return;
    }
    int64_t index[LS_MAX_RANK] = {0};
    for (size_t i = 0; i < n; i++) {
        size_t at = i;
        if (h->fortran) {
            at = 0;
            for (int d = h->rank - 1; d >= 0; d--) {
                at = at * (size_t)h->dims[d] + (size_t)index[d];
            }
            for (int d = h->rank - 1; d >= 0 && ++index[d] == h->dims[d]; d--) {
                index[d] = 0;
            }
        }
        copy_element(to + i * size, from + at * size, size, h->swapped);
    }
}

static ls_status parse(ls_context *context, const char *name, const uint8_t *bytes, size_t size,
                       ls_data **out_data, ls_error *err) {
    static const char magic[6] = {'\x93', 'N', 'U', 'M', 'P', 'Y'};
    if (size < 10 || memcmp(bytes, magic, sizeof magic) != 0 || bytes[6] < 1 || bytes[6] > 3) {
        return LS_FAIL(err, LS_ERR_FORMAT,
                       "%s: expected a .npy file of version 1 to 3, which begins with \\x93NUMPY", name);
    }
    size_t first = bytes[6] == 1 ? 10 : 12;
    size_t length = bytes[8] | (size_t)bytes[9] << 8;
    if (first == 12 && size >= 12) {
        length |= (size_t)bytes[10] << 16 | (size_t)bytes[11] << 24;
    }
    char text[4096];
    if (size < first || length > size - first || length >= sizeof text) {
        return LS_FAIL(err, LS_ERR_FORMAT,
                       "%s: a header of %zu bytes in %zu: expected it to fit, and less than %zu", name,
                       length, size, sizeof text);
    }
    memcpy(text, bytes + first, length);
    text[length] = '\0';
    if (memchr(text, '\0', length)) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: its header holds a NUL byte: expected text", name);
    }
    header h = {.dtype = LS_DTYPE_COUNT};
    if (!parse_header(text, &h)) {
        for (size_t i = length; i-- > 0;) { /* one line, without the padding at its end */
            text[i] = (unsigned char)text[i] > ' ' ? text[i] : text[i + 1] ? ' ' : '\0';
        }
        return LS_FAIL(err, LS_ERR_FORMAT,
                       "%s: its header \"%.120s\": expected descr, fortran_order and shape, of a dtype b1, "
                       "u1 to u8, i1 to "
                       "i8, f2 to f8 or V2, and at most %d axes",
                       name, text, LS_MAX_RANK);
    }
    size_t n = 1, total, have = size - first - length;
    bool fits = true;
    for (int i = 0; i < h.rank; i++) {
        fits = fits && ls_size_mul(n, (uint64_t)h.dims[i], &n);
    }
    if (!fits || !ls_size_mul(n, ls_dtype_size(h.dtype), &total)) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: the shape in its header has more elements than memory could", name);
    }
    if (total != have) {
        return LS_FAIL(err, LS_ERR_FORMAT, "%s: %zu bytes of elements: expected %zu by the shape in its header", name, have, total);
    }
    ls_heap *heap = ls_context_heap(context);
    uint8_t *copy = ls_alloc(heap, total);
    if (!copy) {
        return LS_FAIL_MEMORY(err, name);
    }
    copy_elements(&h, copy, bytes + first + length, n);
    ls_status status = ls_bools_check(name, "", h.dtype, copy, total, err);
    status = status == LS_OK ? ls_data_create(context, h.dtype, h.rank, h.dims, copy, out_data, err) : status;
    ls_free(heap, copy);
    return status;
}

ls_status ls_npy_parse(ls_context *context, const char *path, const char *member, const uint8_t *bytes,
                       size_t size, ls_data **out_data, ls_error *err) {
    char name[512];
    snprintf(name, sizeof name, "%.300s%s%.180s", path, member ? ": member " : "", member ? member : "");
    return parse(context, name, bytes, size, out_data, err);
}

size_t ls_npy_header(const ls_data *data, char out[256]) {
    const char *code = "?";
    for (int i = 0; i < N_CODES; i++) {
        code = codes[i].dtype == ls_data_dtype(data) ? codes[i].code : code;
    }
    bool one_byte = ls_dtype_size(ls_data_dtype(data)) == 1;
    size_t n = 10;
    n += (size_t)snprintf(out + n, 256 - n, "{'descr': '%c%s', 'fortran_order': False, 'shape': (",
                          one_byte ? '|' : '<', code);
    for (int i = 0; i < ls_data_rank(data); i++) {
        n += (size_t)snprintf(out + n, 256 - n, "%lld,%s", (long long)ls_data_dims(data)[i],
                              i + 1 < ls_data_rank(data) ? " " : "");
    }
    n += (size_t)snprintf(out + n, 256 - n, "), }");
    while ((n + 1) % 64 != 0) {
        out[n++] = ' ';
    }
    out[n++] = '\n';
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)((n - 10) & 0xff);
    out[9] = (char)((n - 10) >> 8);
    return n;
}

ls_status ls_npy_load(ls_context *context, const char *path, ls_data **out_data, ls_error *err) {
    ls_mapping map;
    LS_TRY(err, ls_file_map(path, &map, err));
    ls_status status = ls_npy_parse(context, path, NULL, map.data, map.size, out_data, err);
    ls_file_unmap(&map);
    return status;
}

ls_status ls_npy_save(ls_context *context, const char *path, const ls_data *data, ls_error *err) {
    char header[256];
    size_t n = ls_npy_header(data, header);
    ls_file_writer *w = NULL;
    LS_TRY(err, ls_file_create(ls_context_heap(context), path, &w, err));
    ls_status status = ls_file_write(w, header, n, err);
    status = status == LS_OK ? ls_file_write(w, ls_data_bytes(data), ls_data_size(data), err) : status;
    if (status != LS_OK) {
        ls_file_abandon(w);
        return status;
    }
    return ls_file_commit(w, err);
}
