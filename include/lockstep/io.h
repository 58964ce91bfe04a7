/* Files of arrays: npy, npz, safetensors and IDX, pictures and sounds; safetensors and npz in memory too.
 *
 * Reading never trusts a file: every length and offset is checked, and an error names the file, the place and
 * what was expected. Writing is atomic: the file appears whole, or the old one stays. Any thread.
 * */
#ifndef LOCKSTEP_IO_H
#define LOCKSTEP_IO_H

#include <lockstep/data.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- one array ---- */
LS_API ls_status ls_npy_load(ls_context *context, const char *path, ls_data **out_data, ls_error *err) LS_MUST_USE;
LS_API ls_status ls_npy_save(ls_context *context, const char *path, const ls_data *data, ls_error *err) LS_MUST_USE;
LS_API ls_status ls_idx_load(ls_context *context, const char *path, ls_data **out_data, ls_error *err) LS_MUST_USE; /* .gz too */

/* A picture, BMP, JPEG, PNG, PNM or TIFF, as u8 [height, width, channels]: 3 channels (red, green, blue) or 1 (grey). Other formats are
 * LS_ERR_UNSUPPORTED. */
LS_API ls_status ls_image_load(ls_context *context, const char *path, int channels, ls_data **out_data, ls_error *err) LS_MUST_USE;

/* A sound, RIFF WAVE, as f32 [frames, channels], and its frames a second: PCM of 8, 16, 24 or 32 bits over its largest magnitude (x / 32768 of
 * 16 bits, exactly), or floats of 32 or 64 bits as they are, each rounded once. Other encodings are LS_ERR_UNSUPPORTED. */
LS_API ls_status ls_wav_load(ls_context *context, const char *path, ls_data **out_data, int *out_rate, ls_error *err) LS_MUST_USE;

/* ---- named arrays ---- */
typedef struct ls_archive ls_archive;

/* Opens a .npz or .safetensors file, told apart by its content. Arrays of a safetensors file are read by
 * mmap, without a copy; their checksums, if the file has them, are checked when an array is first taken. The
 * caller closes it; arrays taken from it live on. */
LS_API ls_status ls_archive_open(ls_context *context, const char *path, ls_archive **out_archive, ls_error *err) LS_MUST_USE;
/* The same for a file whose bytes are an array, u8 [size]: what was fetched, or is part of a program. `name` is for messages.
 * The archive retains the array. */
LS_API ls_status ls_archive_open_data(ls_context *context, const char *name, ls_data *file, ls_archive **out_archive,
                                      ls_error *err) LS_MUST_USE;
LS_API void ls_archive_close(ls_archive *archive);
LS_API int ls_archive_count(const ls_archive *archive);
LS_API const char *ls_archive_name(const ls_archive *archive, int index);
/* The array of that name or number; the caller releases it. LS_ERR_INVALID names the file and what it holds
 * when there is none. */
LS_API ls_status ls_archive_get(ls_archive *archive, const char *name, ls_data **out_data, ls_error *err) LS_MUST_USE;
LS_API ls_status ls_archive_get_at(ls_archive *archive, int index, ls_data **out_data, ls_error *err) LS_MUST_USE;
/* An entry of a safetensors file's __metadata__; NULL when there is none. Owned by the archive. */
LS_API const char *ls_archive_metadata(const ls_archive *archive, const char *key);

typedef struct ls_named_data {
    const char *name;
    const ls_data *data;
} ls_named_data;
typedef struct ls_metadata {
    const char *key, *value;
} ls_metadata;
/* Writes arrays sorted by name, with a checksum for each in __metadata__ ("sha256.NAME"; of 1 KiB and more also "crc32cx4.NAME"), beside the caller's
 * entries. */
LS_API ls_status ls_safetensors_save(ls_context *context, const char *path, int count, const ls_named_data *arrays,
                                     int n_metadata, const ls_metadata *metadata, ls_error *err) LS_MUST_USE;
/* The bytes of that file as an array, u8 [size], which the caller releases. */
LS_API ls_status ls_safetensors_encode(ls_context *context, int count, const ls_named_data *arrays, int n_metadata,
                                       const ls_metadata *metadata, ls_data **out_file, ls_error *err) LS_MUST_USE;
LS_API ls_status ls_npz_save(ls_context *context, const char *path, int count, const ls_named_data *arrays, ls_error *err)
    LS_MUST_USE;

/* ---- variables ---- */
/* Fills variables from arrays of their names; dtypes and shapes must agree. Nothing changes unless all of it
 * can. `path` is for messages. */
LS_API ls_status ls_vars_load(ls_session *session, ls_var *const *vars, int count, ls_archive *archive, const char *path, ls_error *err)
    LS_MUST_USE;
LS_API ls_status ls_vars_save(ls_session *session, ls_var *const *vars, int count, int n_metadata, const ls_metadata *metadata,
                              const char *path, ls_error *err) LS_MUST_USE;
LS_API ls_status ls_vars_encode(ls_session *session, ls_var *const *vars, int count, int n_metadata, const ls_metadata *metadata,
                                ls_data **out_file, ls_error *err) LS_MUST_USE;

#ifdef __cplusplus
}
#endif
#endif
