/* math.inc keeps its discipline: instantiated over a type that only records operations, in which C
 * arithmetic does not compile and values do not exist, each function becomes one straight line of abstract
 * operations. A small interpreter runs that line and must give the bits of the scalar form. This is how a
 * kernel builder uses the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "math_cases.h"
#include "math/const32.h"
#include "math/const64.h"

typedef enum opcode {
    OP_INPUT,
    OP_CONST,
    OP_ADD,
    OP_SUB,
    OP_MUL,
    OP_DIV,
    OP_SQRT,
    OP_LT,
    OP_LE,
    OP_EQ,
    OP_MAND,
    OP_MOR,
    OP_MNOT,
    OP_SEL,
    OP_CAST,
    OP_IADD,
    OP_ISUB,
    OP_IMUL,
    OP_UMULHI,
    OP_IAND,
    OP_IOR,
    OP_IXOR,
    OP_ISHL,
    OP_USHR,
    OP_ISHR,
    OP_ILT,
    OP_IEQ
} opcode;

enum { MAX_ENTRIES = 4096, SAMPLES = 1 << 15 };

typedef struct entry {
    opcode op;
    int a, b, c;
    uint64_t constant;
} entry;

typedef struct recorder {
    entry entries[MAX_ENTRIES];
    int count;
} recorder;

/* Three types, so that no operation takes an operand of the wrong kind. */
typedef struct value {
    int id;
} value;
typedef struct integer {
    int id;
} integer;
typedef struct truth {
    int id;
} truth;

static int record(recorder *r, opcode op, int a, int b, int c, uint64_t constant) {
    assert_true(r->count < MAX_ENTRIES);
    r->entries[r->count] = (entry){op, a, b, c, constant};
    return r->count++;
}

static inline value value_of(recorder *r, opcode op, int a, int b, int c, uint64_t constant) {
    return (value){record(r, op, a, b, c, constant)};
}

static inline integer integer_of(recorder *r, opcode op, int a, int b, int c, uint64_t constant) {
    return (integer){record(r, op, a, b, c, constant)};
}

static inline truth truth_of(recorder *r, opcode op, int a, int b, int c, uint64_t constant) {
    return (truth){record(r, op, a, b, c, constant)};
}

static inline int v_id(value v) {
    return v.id;
}

static inline int i_id(integer i) {
    return i.id;
}

static inline int m_id(truth m) {
    return m.id;
}

#define LS_MATH_BITS 32
#define FN(name) recorded_##name##_f32
#include "math_record_ops.h"
#include "math/math.inc"
#include "math/ops_end.inc"

#define LS_MATH_BITS 64
#define FN(name) recorded_##name##_f64
#include "math_record_ops.h"
#include "math/math.inc"
#include "math/ops_end.inc"

static uint64_t step32(const entry *e, uint64_t wa, uint64_t wb, uint64_t wc) {
    uint32_t a = (uint32_t)wa, b = (uint32_t)wb, c = (uint32_t)wc;
    float x = float_of(a), y = float_of(b);
    switch (e->op) {
    case OP_ADD:
        return bits_of(x + y);
    case OP_SUB:
        return bits_of(x - y);
    case OP_MUL:
        return bits_of(x * y);
    case OP_DIV:
        return bits_of(x / y);
    case OP_SQRT:
        return bits_of(__builtin_sqrtf(x));
    case OP_LT:
        return x < y;
    case OP_LE:
        return x <= y;
    case OP_EQ:
        return x == y;
    case OP_MAND:
        return a & b;
    case OP_MOR:
        return a | b;
    case OP_MNOT:
        return !a;
    case OP_SEL:
        return a ? b : c;
    case OP_CAST:
        return a;
    case OP_IADD:
        return a + b;
    case OP_ISUB:
        return a - b;
    case OP_IMUL:
        return a * b;
    case OP_UMULHI:
        return (uint32_t)((uint64_t)a * b >> 32);
    case OP_IAND:
        return a & b;
    case OP_IOR:
        return a | b;
    case OP_IXOR:
        return a ^ b;
    case OP_ISHL:
        return b < 32 ? a << b : 0xbad;
    case OP_USHR:
        return b < 32 ? a >> b : 0xbad;
    case OP_ISHR:
        return b < 32 ? (uint32_t)((int64_t)(int32_t)a >> b) : 0xbad;
    case OP_ILT:
        return (int32_t)a < (int32_t)b;
    case OP_IEQ:
        return a == b;
    default:
        return 0;
    }
}

static uint64_t step64(const entry *e, uint64_t a, uint64_t b, uint64_t c) {
    double x = double_of(a), y = double_of(b);
    switch (e->op) {
    case OP_ADD:
        return bits_of_double(x + y);
    case OP_SUB:
        return bits_of_double(x - y);
    case OP_MUL:
        return bits_of_double(x * y);
    case OP_DIV:
        return bits_of_double(x / y);
    case OP_SQRT:
        return bits_of_double(__builtin_sqrt(x));
    case OP_LT:
        return x < y;
    case OP_LE:
        return x <= y;
    case OP_EQ:
        return x == y;
    case OP_MAND:
        return a & b;
    case OP_MOR:
        return a | b;
    case OP_MNOT:
        return !a;
    case OP_SEL:
        return a ? b : c;
    case OP_CAST:
        return a;
    case OP_IADD:
        return a + b;
    case OP_ISUB:
        return a - b;
    case OP_IMUL:
        return a * b;
    case OP_UMULHI:
        return (uint64_t)((unsigned __int128)a * b >> 64);
    case OP_IAND:
        return a & b;
    case OP_IOR:
        return a | b;
    case OP_IXOR:
        return a ^ b;
    case OP_ISHL:
        return b < 64 ? a << b : 0xbad;
    case OP_USHR:
        return b < 64 ? a >> b : 0xbad;
    case OP_ISHR:
        return b < 64 ? (uint64_t)((int64_t)a >> b) : 0xbad;
    case OP_ILT:
        return (int64_t)a < (int64_t)b;
    case OP_IEQ:
        return a == b;
    default:
        return 0;
    }
}

static uint64_t interpret(const recorder *r, int bits, int result, uint64_t x, uint64_t y) {
    static uint64_t slots[MAX_ENTRIES];
    for (int i = 0; i < r->count; i++) {
        const entry *e = &r->entries[i];
        if (e->op == OP_CONST) {
            slots[i] = e->constant;
        } else if (e->op == OP_INPUT) {
            slots[i] = e->constant ? y : x;
        } else {
            slots[i] = bits == 32 ? step32(e, slots[e->a], slots[e->b], slots[e->c])
                                  : step64(e, slots[e->a], slots[e->b], slots[e->c]);
        }
    }
    return slots[result];
}

/* Operations that the result needs, constants and reinterpretations apart: the cost of a straight kernel. */
static int live_operations(const recorder *r, int result) {
    static char live[MAX_ENTRIES];
    memset(live, 0, sizeof live);
    live[result] = 1;
    int n = 0;
    for (int i = r->count - 1; i >= 0; i--) {
        const entry *e = &r->entries[i];
        if (live[i] && e->op != OP_CONST && e->op != OP_INPUT) {
            live[e->a] = live[e->b] = live[e->c] = 1; /* unused operands are entry 0, an input */
            n += e->op != OP_CAST;
        }
    }
    return n;
}

static const struct {
    const char *name;
    float (*f32)(float);
    double (*f64)(double);
    value (*r32)(recorder *, value);
    value (*r64)(recorder *, value);
} rows[] = {
#define RECORD_ROW(name)                                                                                     \
    {#name, ls_##name##_f32, ls_##name##_f64, recorded_##name##_f32, recorded_##name##_f64},
    LS_MATH_UNARY(RECORD_ROW)};

static void recordings_have_the_bits_of_scalars(void **state) {
    (void)state;
    static recorder r32, r64;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        r32.count = r64.count = 0;
        int y32 = rows[k].r32(&r32, value_of(&r32, OP_INPUT, 0, 0, 0, 0)).id;
        int y64 = rows[k].r64(&r64, value_of(&r64, OP_INPUT, 0, 0, 0, 0)).id;
        ls_rng rng = {.key = ls_rng_key(4, k)};
        for (uint64_t n = 0; n < SAMPLES; n++) {
            float x = math_sample32(n, &rng);
            uint64_t got = interpret(&r32, 32, y32, bits_of(x), 0);
            if (got != bits_of(rows[k].f32(x))) {
                fail_msg("%s(%a) in f32: recorded %llx", rows[k].name, x, (unsigned long long)got);
            }
            double d = math_sample64(n, &rng);
            got = interpret(&r64, 64, y64, bits_of_double(d), 0);
            if (got != bits_of_double(rows[k].f64(d))) {
                fail_msg("%s(%a) in f64: recorded %llx", rows[k].name, d, (unsigned long long)got);
            }
        }
        print_message("%-6s %3d operations in f32, %3d in f64\n", rows[k].name, live_operations(&r32, y32),
                      live_operations(&r64, y64));
    }
}

static void recorded_pow_has_the_bits_of_scalars(void **state) {
    (void)state;
    static recorder r32, r64;
    value x32 = value_of(&r32, OP_INPUT, 0, 0, 0, 0), y32 = value_of(&r32, OP_INPUT, 0, 0, 0, 1);
    value x64 = value_of(&r64, OP_INPUT, 0, 0, 0, 0), y64 = value_of(&r64, OP_INPUT, 0, 0, 0, 1);
    int p32 = recorded_pow_f32(&r32, x32, y32).id, p64 = recorded_pow_f64(&r64, x64, y64).id;
    ls_rng rng = {.key = ls_rng_key(4, 100)};
    for (uint64_t n = 0; n < SAMPLES; n++) {
        float x = math_sample32(n, &rng), y = math_sample32(n * 7919 % SAMPLES, &rng);
        assert_true(interpret(&r32, 32, p32, bits_of(x), bits_of(y)) == bits_of(ls_pow_f32(x, y)));
        double a = math_sample64(n, &rng), b = math_sample64(n * 7919 % SAMPLES, &rng);
        assert_true(interpret(&r64, 64, p64, bits_of_double(a), bits_of_double(b)) ==
                    bits_of_double(ls_pow_f64(a, b)));
    }
    print_message("pow    %3d operations in f32, %3d in f64\n", live_operations(&r32, p32),
                  live_operations(&r64, p64));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recordings_have_the_bits_of_scalars),
        cmocka_unit_test(recorded_pow_has_the_bits_of_scalars),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
