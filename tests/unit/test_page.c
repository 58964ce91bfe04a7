/* The functions that a page calls (web/src), natively: what they give is what the library gives, bad input is refused and nothing
 * is lost by it. LOCKSTEP_DEVICE=webgpu with LOCKSTEP_WEBGPU_LATE=1 has a device that must not be waited for. */
#define _POSIX_C_SOURCE 200809L
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>
#include "page.h"

enum { COUNT = 64, ROUNDS_MOST = 100000 };
static char reports[1 << 18]; /* of the last call, a line each */
static size_t reported;
static uint8_t images[COUNT * 784], labels[COUNT];
static const char *device;

void page_report(const char *text, size_t size) {
    assert_true(reported + size + 2 < sizeof reports);
    memcpy(reports + reported, text, size);
    reported += size;
    reports[reported++] = '\n';
    reports[reported] = 0;
}
void page_log(int level, const char *text, size_t size) {
    (void)level;
    (void)text;
    (void)size;
}

/* A call as the host of a page makes it: until it has an answer, the pieces of unfinished calls thrown away. */
#define CALL(call)                                                                                           \
    ({                                                                                                       \
        ls_status status_;                                                                                   \
        int rounds_ = 0;                                                                                     \
        do {                                                                                                 \
            assert_true(rounds_ < ROUNDS_MOST);                                                              \
            if (rounds_++ > 0) {                                                                             \
                nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);                                     \
            }                                                                                                \
            reported = 0;                                                                                    \
            reports[0] = 0;                                                                                  \
            status_ = (call);                                                                                \
        } while (strcmp(page_status_name((int)status_), "again") == 0);                                      \
        status_;                                                                                             \
    })
#define WORKS(call)                                                                                          \
    do {                                                                                                     \
        if (CALL(call) != LS_OK) {                                                                           \
            fail_msg("%s: %s", #call, page_message());                                                       \
        }                                                                                                    \
    } while (0)
#define FAILS(call, status, part)                                                                            \
    do {                                                                                                     \
        assert_int_equal(CALL(call), status);                                                                \
        if (!strstr(page_message(), part)) {                                                                 \
            fail_msg("\"%s\" does not mention \"%s\"", page_message(), part);                                \
        }                                                                                                    \
    } while (0)

static const char *options(const char *more) { /* one of two buffers in turn */
    static char text[2][512];
    static int next;
    char *out = text[next++ % 2];
    snprintf(out, sizeof text[0], "{\"network\":\"mnist:small\",\"batch\":8,\"device\":\"%s\"%s}", device, more);
    return out;
}

static page_train *train_open(const char *more, const void *state, size_t size) {
    page_train *t = NULL;
    WORKS(page_train_open(options(more), images, labels, COUNT, state, size, &t));
    return t;
}

static page_net *net_open(const void *weights, size_t size, const char *math) {
    page_net *net = NULL;
    WORKS(page_net_open("mnist:small", weights, size, device, math, 1, &net));
    return net;
}

static void test_about(void **state) {
    (void)state;
    WORKS(page_about());
    assert_non_null(strstr(reports, "\"mnist:cnn\""));
    assert_non_null(strstr(reports, "\"zero-matmul\""));
}

static void test_networks(void **state) {
    (void)state;
    float x[3 * 784], y[30], again[30];
    double middle[30], radius[30];
    char hex[65], hex_again[65];
    for (int i = 0; i < 3 * 784; i++) {
        x[i] = (float)(i * 7 % 256) / 256;
    }
    page_net *net = net_open(NULL, 0, "locked");
    assert_non_null(strstr(reports, "\"shape\":[\"batch\",10]"));
    for (int batch = 1; batch <= 3; batch++) {
        WORKS(page_net_run(net, batch, x, y, hex));
        WORKS(page_net_run(net, batch, x, again, hex_again));
        assert_string_equal(hex, hex_again);
        assert_memory_equal(y, again, sizeof *y * 10 * (size_t)batch);
        WORKS(page_net_oracle(net, batch, x, middle, radius));
        for (int i = 0; i < 10 * batch; i++) {
            assert_true(y[i] - middle[i] <= radius[i] && middle[i] - y[i] <= radius[i]);
        }
    }
    WORKS(page_net_verify(net, 1, x));
    assert_non_null(strstr(reports, "\"first_divergence\":null"));
    FAILS(page_net_run(net, 0, x, y, hex), LS_ERR_SHAPE, "0 images");
    FAILS(page_net_verify(net, 1 << 20, x), LS_ERR_SHAPE, "images");
    page_net *none = NULL;
    FAILS(page_net_open("mnist:large", NULL, 0, device, "locked", 1, &none), LS_ERR_INVALID, "mnist:large");
    FAILS(page_net_open("mnist:small", NULL, 0, "cpu:9", "locked", 1, &none), LS_ERR_DEVICE, "cpu:9");
    FAILS(page_net_open("mnist:small", NULL, 0, device, "loose", 1, &none), LS_ERR_INVALID, "loose");
    FAILS(page_net_open("mnist:small", x, sizeof x, device, "locked", 1, &none), LS_ERR_FORMAT, "the weights");
    assert_null(none);
    WORKS(page_net_run(net, 3, x, again, hex_again));
    assert_string_equal(hex, hex_again);
    page_net_close(net);
    page_net_close(NULL);
}

static void test_training(void **state) {
    (void)state;
    char whole[65], broken[65];
    const void *bytes = NULL;
    size_t size = 0;
    double loss[6], again;
    page_train *t = train_open(",\"schedule\":\"cosine\",\"steps\":6", NULL, 0);
    uint8_t *kept = NULL;
    size_t kept_size = 0;
    for (int i = 0; i < 6; i++) {
        WORKS(page_train_step(t, &loss[i]));
        if (i == 2) {
            WORKS(page_train_encode(t, 1, &bytes, &size));
            kept = malloc(size);
            memcpy(kept, bytes, kept_size = size);
        }
    }
    FAILS(page_train_step(t, &again), LS_ERR_INVALID, "6 steps are done");
    WORKS(page_train_sha256(t, whole));

    page_train *u = train_open("", kept, kept_size);
    assert_non_null(strstr(reports, "\"step\":3"));
    for (int i = 3; i < 6; i++) {
        WORKS(page_train_step(u, &again));
        assert_true(again == loss[i]);
    }
    WORKS(page_train_sha256(u, broken));
    assert_string_equal(whole, broken);

    page_test *test = NULL;
    int32_t count, right;
    WORKS(page_test_open(images, labels, COUNT, &test));
    WORKS(page_train_test(u, test, 0, &count, &right));
    assert_int_equal(count, COUNT);
    assert_in_range(right, 0, COUNT);
    WORKS(page_train_test(u, test, 1, &count, &right));
    assert_int_equal(count, 0);
    page_test_close(test);

    WORKS(page_train_encode(t, 0, &bytes, &size));
    page_net *net = net_open(bytes, size, "fast");
    WORKS(page_net_sha256(net, broken));
    assert_string_equal(whole, broken);
    page_net_close(net);

    page_train *none = NULL;
    FAILS(page_train_open(options(""), images, labels, COUNT, bytes, size, &none), LS_ERR_FORMAT, "the state");
    FAILS(page_train_open(options(",\"seed\":2"), images, labels, COUNT, kept, kept_size, &none), LS_ERR_INVALID, "seed");
    FAILS(page_train_open(options(",\"steps\":9"), images, labels, COUNT, kept, kept_size, &none), LS_ERR_INVALID, "steps");
    FAILS(page_train_open(options(""), images, labels, COUNT, kept, kept_size / 2, &none), LS_ERR_FORMAT, "the state");
    page_train_close(t);
    page_train_close(u);
    free(kept);
}

static void test_options(void **state) {
    (void)state;
    static const struct {
        const char *more, *part;
    } bad[] = {{",\"speed\":1", "\"speed\""},        {",\"lr\":0", "lr"},
               {",\"lr\":\"1\"", "lr"},              {",\"shift\":9", "shift"},
               {",\"seed\":0.5", "seed"},            {",\"seed\":1e300", "seed"},
               {",\"schedule\":\"step\"", "steps"},  {",\"schedule\":7", "schedule"},
               {",\"optimizer\":\"lion\"", "adamw"}, {",\"math\":\"no\"", "locked"},
               {",\"deviation\":0", "deviation"},    {",\"network\":\"x\"", "\"x\""}};
    page_train *none = NULL;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        FAILS(page_train_open(options(bad[i].more), images, labels, COUNT, NULL, 0, &none), LS_ERR_INVALID, bad[i].part);
    }
    FAILS(page_train_open("[", images, labels, COUNT, NULL, 0, &none), LS_ERR_INVALID, "JSON");
    FAILS(page_train_open("{}", images, labels, COUNT, NULL, 0, &none), LS_ERR_INVALID, "network");
    FAILS(page_train_open(options(""), images, labels, 7, NULL, 0, &none), LS_ERR_SHAPE, "7");
    FAILS(page_train_open(options(",\"device\":\"gpu\""), images, labels, COUNT, NULL, 0, &none), LS_ERR_DEVICE, "gpu");
    labels[3] = 10;
    FAILS(page_train_open(options(""), images, labels, COUNT, NULL, 0, &none), LS_ERR_RANGE, "10");
    labels[3] = 3;
    assert_null(none);
}

static void test_check(void **state) {
    (void)state;
    WORKS(page_check_certify(device));
    assert_non_null(strstr(reports, "\"certification\""));
    WORKS(page_check_case(device, "0-fc1-zeros", ""));
    assert_null(strstr(reports, "\"failed\""));
    WORKS(page_check_case(device, "0-fc1-zeros", "matmul-writes-nothing"));
    assert_non_null(strstr(reports, "\"failed\""));
    WORKS(page_check_row(device, 3, "fast", ""));
    assert_null(strstr(reports, "\"failed\""));
    FAILS(page_check_case(device, "no such case", ""), LS_ERR_INVALID, "no such case");
    FAILS(page_check_case(device, "", "no such fault"), LS_ERR_INVALID, "no such fault");
    FAILS(page_check_certify("gpu"), LS_ERR_DEVICE, "gpu");
}

static int setup(void **state) {
    (void)state;
    device = getenv("LOCKSTEP_DEVICE");
    device = device && *device ? device : "cpu";
    for (int i = 0; i < COUNT; i++) {
        labels[i] = (uint8_t)(i % 10);
        for (int k = 0; k < 784; k++) {
            images[i * 784 + k] = (uint8_t)(k * (i % 10 + 3) % 251);
        }
    }
    return page_open() == LS_OK ? 0 : -1;
}
static int teardown(void **state) {
    (void)state;
    page_close();
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_about),   cmocka_unit_test(test_networks), cmocka_unit_test(test_training),
        cmocka_unit_test(test_options), cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
