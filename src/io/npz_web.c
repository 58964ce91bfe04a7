/* npz.c in the modules of pages, which read and write safetensors: no ZIP, no deflate. */
#include "io/archive.h"

ls_status ls_npz_read(ls_archive *archive, ls_error *err) {
    return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: an .npz file: expected .safetensors, the only archive that this build reads", archive->path);
}

ls_status ls_npz_get(ls_archive *archive, const ls_archive_entry *entry, ls_data **out_data, ls_error *err) {
    (void)entry;
    *out_data = NULL;
    return ls_npz_read(archive, err);
}

ls_status ls_npz_save(ls_context *context, const char *path, int count, const ls_named_data *arrays, ls_error *err) {
    (void)context, (void)count, (void)arrays;
    return LS_FAIL(err, LS_ERR_UNSUPPORTED, "%s: an .npz file: expected .safetensors, the only archive that this build writes", path);
}
