/* The disk cache: what was put is found again, whatever is broken is not, and nothing goes wrong where nothing can be kept. */
#define _GNU_SOURCE
#include "base/folder.h"
#include "device/cache.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[256];
static ls_heap heap;

static int setup(void **state) {
    (void)state;
    const char *tmp = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%s/lockstep-cache-XXXXXX", tmp ? tmp : "/tmp");
    assert_non_null(mkdtemp(folder));
    setenv("LOCKSTEP_CACHE", folder, 1);
    ls_heap_init(&heap, NULL, 0);
    return 0;
}

static int teardown(void **state) {
    (void)state;
    uint64_t n;
    ls_error err;
    setenv("LOCKSTEP_CACHE", folder, 1);
    assert_int_equal(ls_cache_clear(&n, &err), LS_OK);
    assert_int_equal(rmdir(folder), 0); /* nothing else was left there */
    assert_int_equal(atomic_load(&heap.used), 0);
    return 0;
}

static ls_cache_key key_of(const char *text) {
    ls_cache_key key;
    ls_cache_key_begin(&key, "test", NULL);
    ls_cache_key_text(&key, text);
    return key;
}

static bool has(const char *text, const char *expected) {
    ls_cache_key key = key_of(text);
    void *bytes;
    size_t size;
    bool found = ls_cache_get(&heap, &key, &bytes, &size);
    if (found) {
        assert_int_equal(size, strlen(expected));
        assert_memory_equal(bytes, expected, size);
        ls_free(&heap, bytes);
    }
    return found;
}

static void put(const char *text, const char *bytes) {
    ls_cache_key key = key_of(text);
    assert_true(ls_cache_put(&heap, &key, bytes, strlen(bytes)));
}

static void file_of(const char *text, char path[512]) {
    ls_cache_key key = key_of(text);
    char name[65];
    ls_sha256_hex(&key.sha, name);
    snprintf(path, 512, "%s/%s", folder, name);
}

static uint64_t entries(void) {
    ls_cache_info info;
    ls_cache_get_info(&info);
    assert_string_equal(info.reason, "");
    return info.entries;
}

static void keeps_and_finds(void **state) {
    (void)state;
    assert_false(has("a", ""));
    put("a", "first");
    put("b", "");
    assert_true(has("a", "first"));
    assert_true(has("b", ""));
    put("a", "second");
    assert_true(has("a", "second"));
    assert_int_equal(entries(), 2);
    struct stat st;
    char path[512];
    file_of("a", path);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
}

static void keys_differ_by_all_that_they_hold(void **state) {
    (void)state;
    ls_backend one = {.name = "one"}, two = {.name = "two"};
    ls_device d = {.backend = &one};
    ls_cache_key keys[8];
    ls_cache_key_begin(&keys[0], "kind", &d);
    ls_cache_key_begin(&keys[1], "other", &d);
    d.backend = &two;
    ls_cache_key_begin(&keys[2], "kind", &d);
    d.backend = &one;
    strcpy(d.caps.name, "n");
    ls_cache_key_begin(&keys[3], "kind", &d);
    strcpy(d.caps.driver, "d");
    ls_cache_key_begin(&keys[4], "kind", &d);
    keys[5] = keys[6] = keys[7] = keys[4];
    ls_cache_key_text(&keys[5], "ab");
    ls_cache_key_text(&keys[5], "c");
    ls_cache_key_text(&keys[6], "a");
    ls_cache_key_text(&keys[6], "bc");
    ls_cache_key_text(&keys[7], "abc");
    char names[8][65];
    for (int i = 0; i < 8; i++) {
        ls_sha256_hex(&keys[i].sha, names[i]);
        for (int j = 0; j < i; j++) {
            assert_string_not_equal(names[i], names[j]);
        }
    }
}

static void flip(const char *path, long at) {
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    fseek(f, at, SEEK_SET);
    int c = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(c ^ 1, f);
    fclose(f);
}

/* Every byte of the file counts, and so does its length. */
static void a_broken_entry_goes(void **state) {
    (void)state;
    char path[512];
    file_of("a", path);
    for (long at = 0; at < 80 + 5; at++) {
        put("a", "bytes");
        flip(path, at);
        assert_false(has("a", "bytes"));
        assert_int_equal(access(path, F_OK), -1);
    }
    for (long size = 0; size < 80 + 5; size += 7) {
        put("a", "bytes");
        assert_int_equal(truncate(path, size), 0);
        assert_false(has("a", "bytes"));
    }
    put("a", "bytes");
    FILE *f = fopen(path, "ab");
    fputc('x', f);
    fclose(f);
    assert_false(has("a", "bytes"));
    /* another entry's sound file under this name */
    char other[512];
    put("b", "bytes");
    file_of("b", other);
    assert_int_equal(rename(other, path), 0);
    assert_false(has("a", "bytes"));
    put("a", "again");
    assert_true(has("a", "again"));
}

/* What is no file of ours is neither read nor waited for, and is never a reason to fail. */
static void other_things_in_its_place(void **state) {
    (void)state;
    char path[512], elsewhere[512];
    file_of("a", path);
    alarm(20); /* a pipe would hang whoever opens it without thinking */
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_false(has("a", "bytes"));
    put("a", "bytes"); /* takes its place */
    assert_true(has("a", "bytes"));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_false(has("a", "bytes"));
    ls_cache_key key = key_of("a");
    assert_false(ls_cache_put(&heap, &key, "bytes", 5));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(symlink("/nowhere/at/all", path), 0);
    assert_false(has("a", "bytes"));
    put("a", "bytes");
    assert_true(has("a", "bytes"));
    assert_int_equal(chmod(path, 0), 0);
    assert_true(geteuid() == 0 || !has("a", "bytes"));
    assert_int_equal(chmod(path, 0600), 0);
    file_of("b", elsewhere); /* another's sound entry through a link */
    put("b", "other");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink(elsewhere, path), 0);
    assert_false(has("a", "other"));
    assert_int_equal(access(path, F_OK), -1); /* it was removed, the link alone */
    assert_true(has("b", "other"));
    assert_int_equal(symlink(path, path), 0);
    assert_false(has("a", "bytes"));
    assert_int_equal(unlink(path), 0);
    const uint64_t huge = UINT64_C(1) << 37; /* a header that says so, and holes: to read it would take minutes, to map it takes an emulator seconds */
    int fd = open(elsewhere, O_WRONLY);
    assert_int_equal(pwrite(fd, &huge, 8, 8), 8);
    assert_int_equal(ftruncate(fd, (off_t)huge + 80), 0);
    close(fd);
    assert_false(has("b", "other"));
    alarm(0);
}

static void the_least_recently_used_go_first(void **state) {
    (void)state;
    char text[8], path[512], bytes[1001];
    memset(bytes, 'x', 1000);
    bytes[1000] = 0;
    for (int i = 0; i < 10; i++) {
        snprintf(text, sizeof text, "%d", i);
        put(text, bytes);
        file_of(text, path);
        assert_true(ls_file_set_used(path, INT64_C(1000000000000) * (i + 1)));
    }
    assert_true(has("0", bytes)); /* now the most recent */
    ls_cache_trim(&heap, 20000);
    assert_int_equal(entries(), 10);
    ls_cache_trim(&heap, 6000); /* to three quarters: 4 of 1080 bytes */
    assert_int_equal(entries(), 4);
    assert_true(has("0", bytes) && has("9", bytes) && has("8", bytes) && has("7", bytes));
    assert_false(has("1", bytes));
    char stale[600];
    snprintf(stale, sizeof stale, "%s.1-2.tmp", path);
    FILE *f = fopen(stale, "wb");
    fclose(f);
    assert_true(ls_file_set_used(stale, 1));
    ls_cache_trim(&heap, 1000);
    assert_int_equal(access(stale, F_OK), -1);
}

static void can_be_off_or_nowhere(void **state) {
    (void)state;
    char under[640];
    put("a", "x");
    file_of("a", under);
    strcat(under, "/below"); /* below a file: not even root can make it */
    const char *places[] = {"off", under, "/proc/lockstep"};
    for (int i = 0; i < 3; i++) {
        ls_cache_info info;
        ls_cache_key key = key_of("a");
        setenv("LOCKSTEP_CACHE", places[i], 1);
        assert_false(ls_cache_put(&heap, &key, "y", 1));
        assert_false(has("a", "x"));
        ls_cache_get_info(&info);
        assert_string_not_equal(info.reason, "");
        ls_cache_trim(&heap, 0);
    }
    char open[320];
    snprintf(open, sizeof open, "%s/open", folder); /* others could plant kernels there */
    assert_int_equal(mkdir(open, 0700), 0);
    assert_int_equal(chmod(open, 0777), 0);
    setenv("LOCKSTEP_CACHE", open, 1);
    ls_cache_key key = key_of("a");
    assert_false(ls_cache_put(&heap, &key, "y", 1));
    rmdir(open);
    setenv("LOCKSTEP_CACHE", folder, 1);
    assert_true(has("a", "x"));
}

/* A folder that cannot be written serves what it has. */
static void a_read_only_folder_is_read(void **state) {
    (void)state;
    put("a", "x");
    if (geteuid() == 0) {
        print_message("skipped: root may write everywhere\n");
        skip();
    }
    assert_int_equal(chmod(folder, 0500), 0);
    ls_cache_key key = key_of("b");
    assert_false(ls_cache_put(&heap, &key, "y", 1));
    assert_true(has("a", "x"));
    assert_int_equal(chmod(folder, 0700), 0);
}

/* No room for the bytes: nothing is left behind. (A limit on the size of files stands for a full disk.) */
static void a_full_disk_keeps_nothing(void **state) {
    (void)state;
    struct rlimit old, small;
    static char bytes[100000];
    ls_cache_key key = key_of("big");
    getrlimit(RLIMIT_FSIZE, &old);
    small = old;
    small.rlim_cur = 4096;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    bool kept = ls_cache_put(&heap, &key, bytes, sizeof bytes);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(kept);
    assert_int_equal(entries(), 0);
}

/* Processes that write, read, break and trim the same entries never see wrong bytes. */
static void processes_share_it(void **state) {
    (void)state;
    for (int child = 0; child < 4; child++) {
        if (fork() == 0) {
            int wrong = 0;
            for (int i = 0; i < 300; i++) {
                char text[8], bytes[64];
                void *got;
                size_t size;
                snprintf(text, sizeof text, "%d", (i * 7 + child) % 13);
                ls_cache_key key = key_of(text);
                memset(bytes, text[0], sizeof bytes);
                (void)ls_cache_put(&heap, &key, bytes, sizeof bytes);
                if (i % 50 == child) {
                    ls_cache_trim(&heap, 500);
                }
                if (ls_cache_get(&heap, &key, &got, &size)) {
                    wrong += size != sizeof bytes || memcmp(got, bytes, size) != 0;
                    ls_free(&heap, got);
                }
            }
            _exit(wrong != 0);
        }
    }
    for (int child = 0; child < 4; child++) {
        int code = -1;
        wait(&code);
        assert_int_equal(code, 0);
    }
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(keeps_and_finds),           TEST(keys_differ_by_all_that_they_hold),
        TEST(a_broken_entry_goes), TEST(other_things_in_its_place),      TEST(the_least_recently_used_go_first),
        TEST(can_be_off_or_nowhere),     TEST(a_read_only_folder_is_read),
        TEST(a_full_disk_keeps_nothing), TEST(processes_share_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
