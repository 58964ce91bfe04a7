/* Folders of the program's own, by POSIX calls. Names that others could have planted are never followed: files are opened
 * with O_NOFOLLOW and made with O_EXCL, in a folder that only its owner may write. */
#define _GNU_SOURCE
#include "base/folder.h"

#if defined(__wasi__) /* a page has no folder of its own */

ls_status ls_folder_make(const char *path, ls_error *err) {
    return LS_FAIL(err, LS_ERR_IO, "cannot make the folder %s: WebAssembly has none of its own", path);
}

ls_status ls_folder_each(const char *path, ls_folder_fn each, void *user, ls_error *err) {
    (void)path, (void)each, (void)user, (void)err;
    return LS_OK;
}

bool ls_file_touch(const char *path) {
    (void)path;
    return false;
}

bool ls_file_set_used(const char *path, int64_t used) {
    (void)path, (void)used;
    return false;
}

bool ls_file_remove(const char *path) {
    (void)path;
    return false;
}

bool ls_file_put(const char *path, const ls_bytes *pieces, int n) {
    (void)path, (void)pieces, (void)n;
    return false;
}

#else

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static ls_status check_owner(const char *path, ls_error *err) {
    struct stat st;
    if (stat(path, &st)) {
        return LS_FAIL(err, LS_ERR_IO, "cannot look at %s", path);
    }
    if (!S_ISDIR(st.st_mode)) {
        return LS_FAIL(err, LS_ERR_IO, "%s is not a folder", path);
    }
    if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH))) {
        return LS_FAIL(err, LS_ERR_IO, "%s is not this user's alone to write", path);
    }
    return LS_OK;
}

ls_status ls_folder_make(const char *path, ls_error *err) {
    char part[LS_PATH_MAX];
    size_t n = strlen(path);
    if (n == 0 || n >= sizeof part) {
        return LS_FAIL(err, LS_ERR_IO, "the path of a folder has %zu bytes, expected 1 to %zu", n, sizeof part - 1);
    }
    memcpy(part, path, n + 1);
    for (size_t i = 1; i <= n; i++) {
        if (part[i] == '/' || part[i] == 0) {
            part[i] = 0;
            if (mkdir(part, 0700) && errno != EEXIST) {
                return LS_FAIL(err, LS_ERR_IO, "cannot make the folder %s", part);
            }
            part[i] = i < n ? '/' : 0;
        }
    }
    return check_owner(path, err);
}

ls_status ls_folder_each(const char *path, ls_folder_fn each, void *user, ls_error *err) {
    DIR *folder = opendir(path);
    if (!folder) {
        return errno == ENOENT ? LS_OK : LS_FAIL(err, LS_ERR_IO, "cannot list the folder %s", path);
    }
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        struct stat st;
        if (fstatat(dirfd(folder), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode)) {
            int64_t used = (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
            each(user, &(ls_folder_file){entry->d_name, (uint64_t)st.st_size, used});
        }
    }
    closedir(folder);
    return LS_OK;
}

bool ls_file_touch(const char *path) {
    return utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW) == 0;
}

bool ls_file_set_used(const char *path, int64_t used) {
    struct timespec t = {(time_t)(used / 1000000000), (long)(used % 1000000000)};
    return utimensat(AT_FDCWD, path, (struct timespec[2]){t, t}, AT_SYMLINK_NOFOLLOW) == 0;
}

bool ls_file_remove(const char *path) {
    return unlink(path) == 0;
}

static bool write_whole(int fd, const void *data, size_t size) {
    while (size) {
        ssize_t n = write(fd, data, size > (1u << 30) ? (1u << 30) : size);
        if (n < 0 && errno != EINTR) {
            return false;
        }
        data = (const char *)data + (n > 0 ? n : 0);
        size -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

bool ls_file_put(const char *path, const ls_bytes *pieces, int n) {
    char temp[LS_PATH_MAX];
    int len = snprintf(temp, sizeof temp, "%s.%lx-%llx.tmp", path, (long)getpid(), (unsigned long long)ls_os_nanoseconds());
    int fd = len > 0 && (size_t)len < sizeof temp
                 ? open(temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                 : -1;
    if (fd < 0) {
        return false;
    }
    bool ok = true;
    for (int i = 0; ok && i < n; i++) {
        ok = write_whole(fd, pieces[i].data, pieces[i].size);
    }
    ok = close(fd) == 0 && ok;
    ok = ok && rename(temp, path) == 0;
    if (!ok) {
        unlink(temp);
    }
    return ok;
}

#endif
