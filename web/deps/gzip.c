/* A page has no files, so none that is packed. */
#include <zlib.h>

gzFile gzopen(const char *path, const char *mode) {
    (void)path, (void)mode;
    return NULL;
}

int gzread(gzFile file, voidp to, unsigned size) {
    (void)file, (void)to, (void)size;
    return -1;
}

int gzclose(gzFile file) {
    (void)file;
    return Z_OK;
}

const char *gzerror(gzFile file, int *out_code) {
    (void)file;
    *out_code = Z_ERRNO;
    return "a page has no files";
}
