/* IDX, the format of MNIST: two zero bytes, a dtype, a rank, big-endian 32-bit extents, big-endian elements; gzipped or not. */
#include "base/os.h"
#include "base/status.h"
#include <lockstep/io.h>
#include <string.h>
#include <zlib.h>

static const struct {
    uint8_t code;
    ls_dtype dtype;
} idx_dtypes[] = {{0x08, LS_U8},  {0x09, LS_I8},  {0x0b, LS_I16},
                  {0x0c, LS_I32}, {0x0d, LS_F32}, {0x0e, LS_F64}};

static ls_status refuse(gzFile file, const char *path, ls_error *err, const char *what) {
    int code = Z_OK;
    const char *why = gzerror(file, &code);
    return LS_FAIL(err, LS_ERR_FORMAT, "%s: expected %s%s%s", path, what, code != Z_OK ? ": " : "",
                   code != Z_OK ? why : "");
}

static bool read_exact(gzFile file, void *out, size_t size) {
    for (size_t done = 0; done < size;) {
        size_t want = size - done < 1 << 20 ? size - done : 1 << 20;
        int got = gzread(file, (char *)out + done, (unsigned)want);
        if (got <= 0) {
            return false;
        }
        done += (size_t)got;
    }
    return true;
}

static void to_little_endian(uint8_t *bytes, size_t n, size_t size) {
    for (size_t i = 0; size > 1 && i < n; i++) {
        for (size_t b = 0; b < size / 2; b++) {
            uint8_t swap = bytes[i * size + b];
            bytes[i * size + b] = bytes[i * size + size - 1 - b];
            bytes[i * size + size - 1 - b] = swap;
        }
    }
}

static ls_status read_file(ls_context *context, gzFile file, size_t file_size, const char *path,
                           ls_data **out_data, ls_error *err) {
    uint8_t head[4], extent[4], extra;
    int64_t dims[LS_MAX_RANK];
    ls_dtype dtype = LS_DTYPE_COUNT;
    if (!read_exact(file, head, sizeof head) || head[0] || head[1]) {
        return refuse(file, path, err, "an IDX file, which begins with two zero bytes");
    }
    for (size_t i = 0; i < sizeof idx_dtypes / sizeof *idx_dtypes; i++) {
        dtype = idx_dtypes[i].code == head[2] ? idx_dtypes[i].dtype : dtype;
    }
    if (dtype == LS_DTYPE_COUNT || head[3] < 1 || head[3] > LS_MAX_RANK) {
        return refuse(file, path, err, "a dtype code of 8, 9, 11, 12, 13 or 14 and rank 1 to 8");
    }
    size_t size = ls_dtype_size(dtype), n = 1;
    for (int i = 0; i < head[3]; i++) {
        if (!read_exact(file, extent, sizeof extent)) {
            return refuse(file, path, err, "the extents of the header");
        }
        dims[i] = (int64_t)extent[0] << 24 | extent[1] << 16 | extent[2] << 8 | extent[3];
        if (!ls_size_mul(n, (uint64_t)dims[i], &n) || n > PTRDIFF_MAX / 8) {
            return refuse(file, path, err, "extents whose product fits in memory");
        }
    }
    if (n * size / 1100 > file_size) { /* even packed: deflate reaches at most 1:1032 */
        return refuse(file, path, err, "as many elements as the header says: the file is cut short");
    }
    ls_heap *heap = ls_context_heap(context);
    uint8_t *bytes = ls_alloc(heap, n * size);
    if (!bytes) {
        return LS_FAIL_MEMORY(err, path);
    }
    ls_status status = LS_OK;
    int code = Z_OK;
    if (!read_exact(file, bytes, n * size)) {
        status = refuse(file, path, err, "as many elements as the header says: the file is cut short");
    } else if (gzread(file, &extra, 1) != 0) {
        status = refuse(file, path, err, "no bytes after the last element");
    } else if (gzerror(file, &code), code != Z_OK) {
        status = refuse(file, path, err, "a whole gzip file: its checksum is cut off");
    }
    if (status == LS_OK) {
        to_little_endian(bytes, n, size);
        status = ls_data_create(context, dtype, head[3], dims, bytes, out_data, err);
    }
    ls_free(heap, bytes);
    return status;
}

ls_status ls_idx_load(ls_context *context, const char *path, ls_data **out_data, ls_error *err) {
    ls_mapping map; /* says why a file cannot be read, as every other reader does */
    LS_TRY(err, ls_file_map(path, &map, err));
    size_t file_size = map.size;
    ls_file_unmap(&map);
    gzFile file = gzopen(path, "rb");
    if (!file) {
        return LS_FAIL(err, LS_ERR_IO, "%s: cannot be opened", path);
    }
    ls_status status = read_file(context, file, file_size, path, out_data, err);
    gzclose(file);
    return status;
}
