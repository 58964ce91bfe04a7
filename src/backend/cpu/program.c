/* Building tile programs from values. Failure is sticky: out of memory sets `failed`, and every function
 * still returns a valid register number. */
#include "backend/cpu/program_builder.h"
#include "base/half.h"
#include <string.h>

enum { LEAST_ROW = 4 /* lanes that are worth a register of rows */, LONG_ROW = 256 /* and that are if only what they share is loaded */ };

static bool grow(ls_program_builder *b, void **data, int *cap, int len, size_t size) {
    if (len < *cap) {
        return true;
    }
    int wanted = *cap ? 2 * *cap : 2;
    void *more = ls_arena_alloc(b->arena, (size_t)wanted * size);
    if (!more) {
        b->failed = true;
        return false;
    }
    if (len) {
        memcpy(more, *data, (size_t)len * size);
    }
    *data = more;
    *cap = wanted;
    return true;
}

ls_program_builder *ls_pb_create(ls_arena *arena, const ls_spec *spec, const ls_tile_isa *isa,
                                 const int *temps, int n_lane_axes, const uint8_t *lane_axes) {
    ls_program_builder *b = LS_ARENA_NEW(arena, ls_program_builder);
    if (!b) {
        return NULL;
    }
    b->arena = arena;
    b->spec = spec;
    b->isa = isa;
    b->temps = temps;
    b->input = -1;
    for (int i = 0; i < n_lane_axes; i++) {
        if (!ls_dim_is_one(spec->extents_of_axes[lane_axes[i]])) { /* those are no lane axes of programs */
            b->lane_axes[b->n_lane_axes++] = lane_axes[i];
            b->lane_mask |= UINT64_C(1) << lane_axes[i];
        }
    }
    b->values = LS_ARENA_ARRAY(arena, memo, spec->n_values + 1);
    b->ixs = LS_ARENA_ARRAY(arena, int16_t, spec->n_ix + 1);
    return b->values && b->ixs ? b : NULL;
}

/* How many of the lane axes there are up to the last one that a value varies over. */
static int axes_of(const ls_program_builder *b, int32_t value) {
    int n = b->n_lane_axes;
    while (n > 0 && !(b->spec->values[value].axes >> b->lane_axes[n - 1] & 1)) {
        n--;
    }
    return n;
}

static bool is_row(const ls_program_builder *b, int first, int64_t least) {
    int64_t inner = 1;
    for (int i = first; i < b->n_lane_axes && inner < least; i++) {
        inner *= ls_dim_bound(b->spec->extents_of_axes[b->lane_axes[i]]);
    }
    return inner >= least;
}

void ls_pb_rows(ls_program_builder *b) {
    int k = 0;
    for (int32_t i = 0; i < b->spec->n_values; i++) {
        const ls_value *v = &b->spec->values[i];
        const bool divides = v->op == LS_V_MAP && v->map == LS_OP_DIV && v->dtype == LS_F32; /* by a row's number: cheaper */
        int n = axes_of(b, i);
        const bool costs = v->op == LS_V_MAP || (v->op == LS_V_LOAD && (!ls_dtype_is_float((ls_dtype)v->dtype) /* a place */ || is_row(b, n, LONG_ROW)));
        n = divides && n == b->n_lane_axes ? axes_of(b, v->b) : n;
        k = costs && n < b->n_lane_axes && n > k ? n : k;
    }
    for (int32_t i = 0; i < b->spec->n_values && k > 0; i++) { /* where there are rows, what is loaded for shorter ones is theirs, too */
        const int n = b->spec->values[i].op == LS_V_LOAD ? axes_of(b, i) : 0;
        k = n > k && n < b->n_lane_axes && is_row(b, n, LEAST_ROW) ? n : k;
    }
    if (is_row(b, k, LEAST_ROW)) {
        b->row_axes = k;
        for (int i = 0; i < k; i++) {
            b->row_mask |= UINT64_C(1) << b->lane_axes[i];
        }
    }
}

static ls_section section_of(const ls_program_builder *b, uint64_t axes) {
    return axes & b->lane_mask ? LS_SECTION_LANES : axes ? LS_SECTION_POINT : LS_SECTION_LAUNCH;
}

static int16_t new_reg(ls_program_builder *b, ls_section section, int log2, bool lanes) {
    if (b->n_regs == INT16_MAX || !grow(b, (void **)&b->regs, &b->cap_regs, b->n_regs, sizeof *b->regs)) {
        b->failed = true;
        return 0;
    }
    b->regs[b->n_regs] = (virtual_reg){(uint8_t)log2, (uint8_t)section, lanes, -1};
    return (int16_t)b->n_regs++;
}

static void add(ls_program_builder *b, ls_section section, const ls_instr *instr) {
    if (grow(b, (void **)&b->instrs[section], &b->cap_instrs[section], b->n_instrs[section], sizeof *instr)) {
        b->instrs[section][b->n_instrs[section]++] = *instr;
    }
}

static int add_access(ls_program_builder *b, const ls_access *access) {
    if (!grow(b, (void **)&b->accesses, &b->cap_accesses, b->n_accesses, sizeof *access)) {
        return 0;
    }
    b->accesses[b->n_accesses] = *access;
    return b->n_accesses++;
}

static ls_section reg_section(const ls_program_builder *b, int16_t reg) {
    return reg < 0 || b->failed ? LS_SECTION_LAUNCH : (ls_section)b->regs[reg].section;
}

/* The register as an operand of an instruction in `section`: one lane becomes all lanes where it must, and a
 * lane a row as many as the row has. */
int16_t ls_pb_operand(ls_program_builder *b, ls_section section, int16_t reg) {
    if (reg < 0 || b->failed || section < LS_SECTION_ROWS) {
        return reg;
    }
    ls_section own = (ls_section)b->regs[reg].section;
    bool row = own == LS_SECTION_ROWS;
    if (b->regs[reg].lanes && !(row && section == LS_SECTION_LANES)) {
        return reg;
    }
    if (b->regs[reg].broadcast < 0) {
        int log2 = b->regs[reg].log2;
        int16_t wide = new_reg(b, own, log2, true);
        if (b->failed) {
            return reg;
        }
        add(b, own,
            &(ls_instr){.op = row ? LS_TILE_OP_EXPAND : LS_TILE_OP_BROADCAST,
                        .log2 = (uint8_t)log2,
                        .dst = wide,
                        .a = reg,
                        .b = -1,
                        .c = -1,
                        .name = row ? "expand" : "broadcast"});
        b->regs[reg].broadcast = wide;
    }
    return b->regs[reg].broadcast;
}

static int16_t emit(ls_program_builder *b, ls_section section, ls_instr instr) {
    instr.a = ls_pb_operand(b, section, instr.a);
    instr.b = ls_pb_operand(b, section, instr.b);
    instr.c = ls_pb_operand(b, section, instr.c);
    instr.dst = new_reg(b, section, instr.log2, section >= LS_SECTION_ROWS);
    add(b, section, &instr);
    return instr.dst;
}

static ls_section later(ls_section a, ls_section b) {
    return a > b ? a : b;
}
static ls_section section_of_regs(const ls_program_builder *b, int16_t x, int16_t y, int16_t z) {
    return later(reg_section(b, x), later(reg_section(b, y), reg_section(b, z)));
}

static int16_t emit_fn(ls_program_builder *b, ls_tile_fn fn, const char *name, int log2, int16_t x, int16_t y,
                       int16_t z) {
    return emit(
        b, section_of_regs(b, x, y, z),
        (ls_instr){
            .op = LS_TILE_OP_FN, .log2 = (uint8_t)log2, .a = x, .b = y, .c = z, .fn = fn, .name = name});
}
static int16_t emit_divide(ls_program_builder *b, ls_tile_fn fn, int16_t x, int16_t y) {
    ls_section own = reg_section(b, y);
    bool shared = !LS_SMALL && b->isa->divide_f32 && own < LS_SECTION_LANES && reg_section(b, x) == LS_SECTION_LANES;
    int16_t reg = emit_fn(b, fn, "div", 2, x, y, -1);
    if (shared && !b->failed) {
        ls_instr *in = &b->instrs[LS_SECTION_LANES][b->n_instrs[LS_SECTION_LANES] - 1];
        in->op = LS_TILE_OP_DIVIDE;
        in->combine = own == LS_SECTION_ROWS;
    }
    return reg;
}
static int16_t emit_cast(ls_program_builder *b, ls_tile_cast_fn cast, const char *name, int log2, int16_t x) {
    return emit(b, reg_section(b, x),
                (ls_instr){.op = LS_TILE_OP_CAST,
                           .log2 = (uint8_t)log2,
                           .a = x,
                           .b = -1,
                           .c = -1,
                           .cast = cast,
                           .name = name});
}
static int16_t emit_const(ls_program_builder *b, int log2, uint64_t bits) {
    return emit(b, LS_SECTION_LAUNCH,
                (ls_instr){.op = LS_TILE_OP_CONST,
                           .log2 = (uint8_t)log2,
                           .a = -1,
                           .b = -1,
                           .c = -1,
                           .bits = bits,
                           .name = "const"});
}

uint64_t ls_held_bits(ls_dtype dtype, uint64_t stored) {
    float f;
    if (dtype == LS_F16) {
        f = ls_f16_to_f32((uint16_t)stored);
    } else if (dtype == LS_BF16) {
        f = ls_bf16_to_f32((uint16_t)stored);
    } else {
        return stored;
    }
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static int held_log2(ls_dtype dtype) {
    return ls_tile_log2(ls_tile_held_size(dtype));
}

int16_t ls_pb_cast(ls_program_builder *b, int16_t reg, ls_dtype from, ls_dtype to) {
    const ls_tile_isa *isa = b->isa;
    if (from == to) {
        return reg;
    }
    bool f64 = from == LS_F64, half = to == LS_F16 || to == LS_BF16;
    int log2 = held_log2(to);
    if (!ls_dtype_is_float(from)) {
        if (to == LS_BOOL) {
            return emit_cast(b, isa->int_to_bool[from], "bool", log2, reg);
        }
        if (half) {
            int16_t odd = emit_cast(b, isa->int_to_odd[from], "odd", 3, reg);
            return emit_cast(b, isa->round_f64[to - LS_F16], "round", log2, odd);
        }
        if (to == LS_F32 || to == LS_F64) {
            return emit_cast(b, (to == LS_F32 ? isa->int_to_f32 : isa->int_to_f64)[from], "float", log2, reg);
        }
        return log2 == held_log2(from) ? reg : emit_cast(b, isa->cast_int[from][log2], "int", log2, reg);
    }
    if (!ls_dtype_is_float(to)) {
        return emit_cast(b, (f64 ? isa->f64_to_int : isa->f32_to_int)[to], "int", log2, reg);
    }
    if (half) {
        return emit_cast(b, (f64 ? isa->round_f64 : isa->round_f32)[to - LS_F16], "round", log2, reg);
    }
    if (to == LS_F64) {
        return emit_cast(b, isa->f32_to_f64, "f64", log2, reg);
    }
    return f64 ? emit_cast(b, isa->f64_to_f32, "f32", log2, reg) : reg; /* a half is held as f32 */
}

int16_t ls_pb_select(ls_program_builder *b, int16_t mask, int16_t reg, uint64_t other, ls_dtype dtype) {
    if (mask < 0) {
        return reg;
    }
    int log2 = held_log2(dtype);
    return emit_fn(b, b->isa->select[log2], "select", log2, mask, reg, emit_const(b, log2, other));
}

int16_t ls_pb_both(ls_program_builder *b, int16_t x, int16_t y) {
    return x < 0             ? y
           : y < 0 || x == y ? x
                             : emit_fn(b, b->isa->map_int[LS_TILE_INT_AND][LS_BOOL], "and", 0, x, y, -1);
}

/* ---- index expressions, lane by lane ---- */
static int16_t ix_reg(ls_program_builder *b, int32_t id) {
    if (b->ixs[id]) {
        return (int16_t)(b->ixs[id] - 1);
    }
    const ls_ix *ix = &b->spec->ix[id];
    int16_t reg;
    switch ((ls_ix_op)ix->op) {
    case LS_IX_CONST:
        reg = emit_const(b, 3, (uint64_t)ix->k);
        break;
    case LS_IX_AXIS:
        reg = emit(b, section_of(b, UINT64_C(1) << ix->a),
                   (ls_instr){.op = LS_TILE_OP_COORD,
                              .log2 = 3,
                              .a = -1,
                              .b = -1,
                              .c = -1,
                              .access = ix->a,
                              .name = "coord"});
        break;
    case LS_IX_DIM:
        reg = emit(
            b, LS_SECTION_LAUNCH,
            (ls_instr){
                .op = LS_TILE_OP_DIM, .log2 = 3, .a = -1, .b = -1, .c = -1, .access = ix->a, .name = "dim"});
        break;
    case LS_IX_VALUE:
        reg = ls_pb_cast(b, ls_pb_value(b, ix->a, 0, NULL), (ls_dtype)b->spec->values[ix->a].dtype, LS_I64);
        break;
    default: {
        static const char *const names[] = {"index_add", "index_mul", "index_div", "index_mod"};
        int16_t x = ix_reg(b, ix->a), y = ix_reg(b, ix->b);
        ls_tile_fn fn = ix->op == LS_IX_ADD   ? ls_tile_int_fn(b->isa, LS_OP_ADD, LS_I64)
                        : ix->op == LS_IX_MUL ? ls_tile_int_fn(b->isa, LS_OP_MUL, LS_I64)
                                              : b->isa->index[ix->op == LS_IX_MOD];
        reg = emit_fn(b, fn, names[ix->op - LS_IX_ADD], 3, x, y, -1);
        break;
    }
    }
    b->ixs[id] = (int16_t)(reg + 1);
    return reg;
}

/* ---- predicates ---- */
static uint64_t access_axes(const ls_program_builder *b, const ls_access *a) {
    uint64_t axes = 0;
    for (int i = 0; i < a->n_scalar; i++) {
        axes |= UINT64_C(1) << a->scalar_axis[i];
    }
    for (int i = 0; i < a->n_dims; i++) {
        axes |= a->dims[i].stride ? UINT64_C(1) << b->lane_axes[a->dims[i].last] : 0;
    }
    for (int i = 0; i < a->n_tables; i++) {
        for (int j = 0; j < a->tables[i].n_axes; j++) {
            axes |= UINT64_C(1) << a->tables[i].axes[j];
        }
    }
    return axes;
}

/* Whether all predicates hold, ANDed onto `mask` (-1: true). */
static int16_t preds_mask(ls_program_builder *b, int32_t first, int32_t n, int16_t mask) {
    if (n == 0) {
        return mask;
    }
    ls_access access = {0};
    bool failed = false;
    if (ls_access_build(b->arena, b->spec, LS_SPEC_NONE, 1, &first, &n, b->n_lane_axes, b->lane_axes, &access,
                        &failed)) {
        int16_t present = emit(b, section_of(b, access_axes(b, &access)),
                               (ls_instr){.op = LS_TILE_OP_PRESENT,
                                          .a = -1,
                                          .b = -1,
                                          .c = -1,
                                          .access = add_access(b, &access),
                                          .name = "present"});
        return ls_pb_both(b, mask, present);
    }
    b->failed |= failed;
    if (mask < 0) {
        mask = emit_const(b, 0, 1);
    }
    for (int32_t p = first; p < first + n; p++) {
        const ls_pred *pred = &b->spec->preds[p];
        int16_t x = ix_reg(b, pred->ix);
        if (pred->limit != LS_SPEC_NONE) {
            int16_t limit = ix_reg(b, pred->limit);
            mask = emit(b, section_of_regs(b, mask, x, limit),
                        (ls_instr){.op = LS_TILE_OP_RANGE, .a = mask, .b = x, .c = limit, .name = "range"});
        } else {
            mask = emit(b, section_of_regs(b, mask, x, -1),
                        (ls_instr){.op = LS_TILE_OP_MULTIPLE,
                                   .a = mask,
                                   .b = x,
                                   .c = -1,
                                   .bits = (uint64_t)pred->multiple,
                                   .name = "multiple"});
        }
    }
    return mask;
}

/* Whether 0 <= check < limit, reported where it is not and `where` (-1: everywhere) holds; done in section `least` or a later one. */
static int16_t in_range(ls_program_builder *b, ls_section least, int32_t check, int32_t limit, int16_t where, uint64_t origin) {
    int16_t x = ix_reg(b, check), most = ix_reg(b, limit), yes = emit_const(b, 0, 1);
    int16_t inside = emit(b, later(least, section_of_regs(b, x, most, -1)),
                          (ls_instr){.op = LS_TILE_OP_RANGE, .a = yes, .b = x, .c = most, .name = "range"});
    ls_section section = later(least, section_of_regs(b, inside, where, -1));
    add(b, section,
        &(ls_instr){.op = LS_TILE_OP_CHECK,
                    .dst = -1,
                    .a = ls_pb_operand(b, section, where),
                    .b = ls_pb_operand(b, section, inside),
                    .c = -1,
                    .bits = origin,
                    .name = "check"});
    return inside;
}

/* ---- loads ---- */
/* A load that is the same along rows becomes one of a lane a row. */
static ls_section section_of_load(const ls_program_builder *b, ls_access *a) {
    uint64_t lanes = access_axes(b, a) & b->lane_mask;
    if (a->n_tables || !lanes || lanes & ~b->row_mask) {
        return section_of(b, access_axes(b, a));
    }
    while (a->dims[a->n_dims - 1].first >= b->row_axes) {
        a->n_dims--;
    }
    ls_access_dim *last = &a->dims[a->n_dims - 1];
    last->last = last->last < b->row_axes ? last->last : (uint8_t)(b->row_axes - 1);
    return LS_SECTION_ROWS;
}

static int16_t to_held(ls_program_builder *b, int16_t reg, ls_dtype dtype) {
    return b->isa->load[dtype]
               ? emit_cast(b, b->isa->load[dtype], ls_dtype_name(dtype), held_log2(dtype), reg)
               : reg;
}

static int16_t load_access(ls_program_builder *b, ls_access *access, ls_dtype dtype, uint64_t fill) {
    access->log2 = (uint8_t)ls_tile_log2(ls_dtype_size(dtype));
    access->fill = fill;
    access->ahead = b->ahead ? ls_fetch_ahead(b->spec, access) : 0;
    ls_section section = section_of_load(b, access);
    if (!access->n_tables) {
        ls_access_find_pattern(b->spec, b->lane_axes, access);
    }
    int16_t raw = emit(b, section,
                       (ls_instr){.op = LS_TILE_OP_LOAD,
                                  .log2 = access->log2,
                                  .dtype = (uint8_t)dtype,
                                  .a = -1,
                                  .b = -1,
                                  .c = -1,
                                  .access = add_access(b, access),
                                  .name = "load"});
    return to_held(b, raw, dtype);
}

static uint64_t nan_bits(ls_dtype dtype) {
    return dtype == LS_F64 ? LS_NAN_F64 : ls_dtype_is_float(dtype) ? LS_NAN_F32 : 0; /* held form */
}

static int16_t load_lane_by_lane(ls_program_builder *b, const ls_value *v) {
    int16_t mask = preds_mask(b, v->first_pred, v->n_preds, -1), present = mask, inside = -1;
    ls_dtype dtype = (ls_dtype)v->dtype;
    if (v->check != LS_SPEC_NONE) {
        inside = in_range(b, LS_SECTION_LAUNCH, v->check, v->limit, mask, v->origin);
        mask = ls_pb_both(b, mask, inside);
    }
    int16_t at = ix_reg(b, v->ix);
    int16_t reg = emit(b, section_of_regs(b, at, mask, -1),
                       (ls_instr){.op = LS_TILE_OP_GATHER,
                                  .log2 = (uint8_t)ls_tile_log2(ls_dtype_size(dtype)),
                                  .dtype = (uint8_t)dtype,
                                  .a = at,
                                  .b = mask,
                                  .c = -1,
                                  .access = v->arg,
                                  .name = "gather"});
    reg = to_held(b, reg, dtype);
    if (inside >= 0 && nan_bits(dtype)) {
        reg = ls_pb_select(b, inside, reg, nan_bits(dtype), dtype);
        reg = ls_pb_select(b, present, reg, 0, dtype);
    }
    return reg;
}

/* Elements at places along one axis that a value gives, all else affine: an embedding, an image made larger. False: the
 * index is something else. */
static bool load_take(ls_program_builder *b, const ls_value *v, int16_t *out_reg) {
    const ls_spec *spec = b->spec;
    ls_dtype dtype = (ls_dtype)v->dtype;
    ls_ix_sum linear;
    ls_ix_sum_of(spec, v->ix, &linear);
    if (v->check == LS_SPEC_NONE || v->n_preds || linear.failed || linear.n_rest != 1) {
        return false;
    }
    const ls_ix *place = &spec->ix[linear.rest[0]], *check = &spec->ix[v->check], *limit = &spec->ix[v->limit];
    if (place->op != LS_IX_VALUE || check->op != LS_IX_VALUE || check->a != place->a || limit->op != LS_IX_CONST) {
        return false;
    }
    ls_access access = {.buffer = v->arg, .offset = linear.constant, .factor = linear.factor[0], .limit = limit->k};
    ls_access_from_strides(spec, linear.n_terms, linear.axis, linear.stride, b->n_lane_axes, b->lane_axes, &access);
    access.log2 = (uint8_t)ls_tile_log2(ls_dtype_size(dtype));
    access.ahead = b->ahead ? ls_fetch_ahead(spec, &access) : 0;
    access.fill = dtype == LS_F64    ? LS_NAN_F64
                  : dtype == LS_F32  ? LS_NAN_F32
                  : dtype == LS_F16  ? LS_NAN_F16
                  : dtype == LS_BF16 ? LS_NAN_BF16
                                     : 0;
    int16_t at = ix_reg(b, linear.rest[0]);
    bool rows = reg_section(b, at) == LS_SECTION_ROWS;
    at = rows ? at : ls_pb_operand(b, LS_SECTION_LANES, at);
    ls_instr take = {.op = LS_TILE_OP_TAKE,
                     .log2 = access.log2,
                     .dtype = (uint8_t)dtype,
                     .combine = rows,
                     .dst = new_reg(b, LS_SECTION_LANES, access.log2, true),
                     .a = at,
                     .b = -1,
                     .c = -1,
                     .access = add_access(b, &access),
                     .bits = v->origin,
                     .name = "take"};
    add(b, LS_SECTION_LANES, &take);
    *out_reg = to_held(b, take.dst, dtype);
    return true;
}

static int16_t load_value(ls_program_builder *b, const ls_value *v) {
    ls_access access = {.buffer = v->arg};
    bool failed = false;
    if (v->check == LS_SPEC_NONE && ls_access_build(b->arena, b->spec, v->ix, 1, &v->first_pred, &v->n_preds,
                                                    b->n_lane_axes, b->lane_axes, &access, &failed)) {
        return load_access(b, &access, (ls_dtype)v->dtype, 0);
    }
    b->failed |= failed;
    int16_t reg;
    return load_take(b, v, &reg) ? reg : load_lane_by_lane(b, v);
}

void ls_temp_access(const ls_spec *spec, int32_t value, int temp, int n_lane_axes, const uint8_t *lane_axes,
                    ls_access *out_access) {
    uint8_t axes[LS_SPEC_MAX_AXES], lanes[LS_LANE_AXES];
    int64_t strides[LS_SPEC_MAX_AXES], stride = 1;
    int n = 0, n_lanes = 0;
    memset(out_access, 0, sizeof *out_access);
    for (int i = 0; i < n_lane_axes; i++) {
        if (!ls_dim_is_one(spec->extents_of_axes[lane_axes[i]])) {
            lanes[n_lanes++] = lane_axes[i];
        }
    }
    for (int axis = LS_SPEC_MAX_AXES - 1; axis >= 0; axis--) {
        if (spec->values[value].axes >> axis & 1) {
            axes[n] = (uint8_t)axis;
            strides[n++] = stride;
            stride *= ls_dim_bound(spec->extents_of_axes[axis]);
        }
    }
    out_access->buffer = spec->n_args + temp;
    ls_access_from_strides(spec, n, axes, strides, n_lanes, lanes, out_access);
}

/* ---- values ---- */
static bool keeps_halves(ls_op op) { /* the result of f16 or bf16 operands is exact in their dtype */
    return op == LS_OP_NEG || op == LS_OP_ABS || op == LS_OP_SIGN || op == LS_OP_FLOOR || op == LS_OP_CEIL ||
           op == LS_OP_TRUNC || op == LS_OP_RINT || op == LS_OP_MIN || op == LS_OP_MAX;
}

static int16_t map_value(ls_program_builder *b, const ls_value *v) {
    const int32_t src[3] = {v->a, v->b, v->c};
    int16_t x[3] = {-1, -1, -1};
    int arity = ls_ops[v->map].arity;
    for (int i = 0; i < arity; i++) {
        x[i] = ls_pb_value(b, src[i], 0, NULL);
    }
    ls_dtype from = (ls_dtype)b->spec->values[src[arity == 3]].dtype, to = (ls_dtype)v->dtype;
    const char *name = ls_ops[v->map].name;
    if (v->map == LS_OP_WHERE) {
        return emit_fn(b, b->isa->select[held_log2(to)], name, held_log2(to), x[0], x[1], x[2]);
    }
    if (v->map == LS_OP_CAST) {
        return ls_pb_cast(b, x[0], from, to);
    }
    if (v->map == LS_OP_BITCAST) {
        if (b->isa->store[from]) {
            x[0] = emit_cast(b, b->isa->store[from], "canonical", ls_tile_log2(ls_dtype_size(from)), x[0]);
        }
        return from != LS_BOOL && to == LS_BOOL
                   ? emit_fn(b, b->isa->map_int[LS_TILE_INT_AND][LS_U8], "and", 0, x[0], emit_const(b, 0, 1), -1)
                   : to_held(b, x[0], to);
    }
    if (v->map == LS_OP_ABS && from < LS_I8) {
        return x[0];
    }
    ls_tile_fn fn = from == LS_F64            ? b->isa->map_f64[v->map]
                    : ls_dtype_is_float(from) ? b->isa->map_f32[v->map]
                                              : ls_tile_int_fn(b->isa, (ls_op)v->map, from);
    if (!fn) {
        b->failed = true;
        return 0;
    }
    if (!LS_SMALL && from == LS_F32 && b->spec->math != LS_LOCKED && b->isa->map_fast && b->isa->map_fast[v->map]) {
        fn = b->isa->map_fast[v->map];
    }
    int16_t reg = v->map == LS_OP_DIV && from != LS_F64 && ls_dtype_is_float(from)
                      ? emit_divide(b, fn, x[0], x[1])
                      : emit_fn(b, fn, name, held_log2(to), x[0], x[1], x[2]);
    if ((to == LS_F16 || to == LS_BF16) && !keeps_halves((ls_op)v->map)) {
        reg = emit_cast(b, b->isa->round_f32[to - LS_F16], "round", 2, reg);
    }
    return reg;
}

/* GUARD straight over a load becomes one access; its absent elements are `fill`. */
static bool guard_access(ls_program_builder *b, const ls_value *v, uint64_t fill, ls_access *access) {
    const ls_value *load = &b->spec->values[v->a];
    if (load->op != LS_V_LOAD || load->check != LS_SPEC_NONE || b->temps[v->a] >= 0) {
        return false;
    }
    /* The load reads +0 where its own predicates fail: that is the same only where the guard fails with them. */
    for (int i = 0; i < load->n_preds && fill != 0; i++) {
        bool among = false;
        for (int j = 0; j < v->n_preds && !among; j++) {
            among = ls_same_pred(&b->spec->preds[load->first_pred + i], &b->spec->preds[v->first_pred + j]);
        }
        if (!among) {
            return false;
        }
    }
    int32_t first[2] = {v->first_pred, load->first_pred}, count[2] = {v->n_preds, load->n_preds};
    bool failed = false;
    memset(access, 0, sizeof *access);
    access->buffer = load->arg;
    bool built = ls_access_build(b->arena, b->spec, load->ix, 2, first, count, b->n_lane_axes, b->lane_axes,
                                 access, &failed);
    b->failed |= failed;
    return built;
}

/* A load where the guard holds and another value elsewhere, as in a concatenation: lanes are written over that value's, so a tile costs
 * what its own pieces cost, however many there are. False: it takes a mask. */
static bool guard_overlay(ls_program_builder *b, const ls_value *v, memo *m) {
    ls_dtype dtype = (ls_dtype)v->dtype;
    ls_access access;
    int16_t mask_b = -1;
    bool plain = ls_tile_held_size(dtype) == ls_dtype_size(dtype);
    if (!plain || !guard_access(b, v, 1, &access) || !access.n_tables || section_of(b, access_axes(b, &access)) != LS_SECTION_LANES) {
        return false;
    }
    int16_t under = ls_pb_value(b, v->b, 0, &mask_b);
    access.log2 = (uint8_t)ls_tile_log2(ls_dtype_size(dtype));
    m->reg = emit(b, LS_SECTION_LANES,
                  (ls_instr){.op = LS_TILE_OP_OVERLAY,
                             .log2 = access.log2,
                             .dtype = (uint8_t)dtype,
                             .a = under,
                             .b = -1,
                             .c = -1,
                             .access = add_access(b, &access),
                             .name = "overlay"});
    if (mask_b >= 0) {
        int16_t mask = preds_mask(b, v->first_pred, v->n_preds, -1), yes = emit_const(b, 0, 1);
        m->mask = mask < 0 ? -1 : emit_fn(b, b->isa->select[0], "select", 0, mask, yes, mask_b);
    }
    return true;
}

static memo guard_value(ls_program_builder *b, const ls_value *v) {
    ls_dtype dtype = (ls_dtype)v->dtype;
    const ls_value *other = v->b == LS_SPEC_NONE ? NULL : &b->spec->values[v->b];
    ls_access access;
    memo m = {true, -1, -1};
    if ((!other || other->op == LS_V_CONST) && guard_access(b, v, other ? other->bits : 0, &access)) {
        m.reg = load_access(b, &access, dtype, other ? other->bits : 0);
        m.mask = other ? -1 : preds_mask(b, v->first_pred, v->n_preds, -1);
        return m;
    }
    if (other && guard_overlay(b, v, &m)) {
        return m;
    }
    int16_t mask = preds_mask(b, v->first_pred, v->n_preds, -1), mask_a = -1, mask_b = -1;
    int16_t x = ls_pb_value(b, v->a, 0, &mask_a);
    if (!other) {
        m.reg = ls_pb_select(b, mask, x, 0, dtype);
        m.mask = ls_pb_both(b, mask, mask_a);
        return m;
    }
    int16_t y = ls_pb_value(b, v->b, 0, &mask_b);
    m.reg =
        mask < 0 ? x : emit_fn(b, b->isa->select[held_log2(dtype)], "select", held_log2(dtype), mask, x, y);
    if (mask_a >= 0 || mask_b >= 0) {
        int16_t yes = emit_const(b, 0, 1);
        m.mask = mask < 0 ? mask_a
                          : emit_fn(b, b->isa->select[0], "select", 0, mask, mask_a < 0 ? yes : mask_a,
                                    mask_b < 0 ? yes : mask_b);
    }
    return m;
}

int16_t ls_pb_value(ls_program_builder *b, int32_t id, uint64_t fill, int16_t *out_mask) {
    const ls_value *v = &b->spec->values[id];
    memo *m = &b->values[id];
    ls_access access;
    ls_dtype dtype = (ls_dtype)v->dtype;
    if (!m->known && !out_mask && fill != 0 && v->op == LS_V_GUARD && v->b == LS_SPEC_NONE &&
        guard_access(b, v, fill, &access)) {
        return load_access(b, &access, dtype, fill); /* absent elements come filled */
    }
    if (!m->known) {
        int16_t reg = 0, mask = -1;
        if (b->temps[id] >= 0) {
            ls_temp_access(b->spec, id, b->temps[id], b->n_lane_axes, b->lane_axes, &access);
            reg = load_access(b, &access, dtype, 0);
        } else if (v->op == LS_V_CONST) {
            reg = emit_const(b, held_log2(dtype), ls_held_bits(dtype, v->bits));
        } else if (v->op == LS_V_LOAD) {
            reg = load_value(b, v);
        } else if (v->op == LS_V_GUARD) {
            memo g = guard_value(b, v);
            reg = g.reg;
            mask = g.mask;
        } else if (v->op == LS_V_INDEX) {
            reg = ls_pb_cast(b, ix_reg(b, v->ix), LS_I64, dtype);
        } else if (v->op == LS_V_MAP) {
            reg = map_value(b, v);
        } else if (v->op == LS_V_RANDOM) {
            int16_t key0 = ls_pb_value(b, v->a, 0, NULL), key1 = ls_pb_value(b, v->b, 0, NULL),
                    at = ix_reg(b, v->ix);
            reg = emit(
                b, section_of_regs(b, key0, key1, at),
                (ls_instr){
                    .op = LS_TILE_OP_RANDOM, .log2 = 2, .a = key0, .b = key1, .c = at, .name = "random"});
        } else {
            b->failed = true; /* a value with bound axes that has no temporary: the plan of phases is wrong */
        }
        *m = (memo){true, reg, mask};
    }
    if (out_mask) {
        *out_mask = m->mask;
        return m->reg;
    }
    return m->mask >= 0 && fill != 0 ? ls_pb_select(b, m->mask, m->reg, ls_held_bits(dtype, fill), dtype)
                                     : m->reg;
}

ls_dtype ls_input_dtype(const ls_value *v) {
    bool sums = v->op == LS_V_CONTRACT || v->op == LS_V_SCAN ||
                (v->op == LS_V_REDUCE && v->map != LS_OP_ARGMIN && v->map != LS_OP_ARGMAX);
    return (ls_dtype)(sums ? v->acc : v->dtype);
}

void ls_pb_input(ls_program_builder *b, int32_t value) {
    const ls_value *v = &b->spec->values[value];
    ls_dtype dtype = ls_input_dtype(v);
    b->input = new_reg(b, LS_SECTION_LANES, held_log2(dtype), true);
    if (!b->failed) {
        int16_t reg = ls_pb_cast(b, b->input, dtype, (ls_dtype)v->dtype);
        b->values[value] = (memo){true, reg, -1};
    }
}

/* ---- stores ---- */
void ls_pb_ahead(ls_program_builder *b) {
    b->ahead = true;
}

bool ls_pb_store_access(ls_program_builder *b, int16_t reg, ls_dtype dtype, const ls_access *access) {
    ls_access copy = *access;
    copy.log2 = (uint8_t)ls_tile_log2(ls_dtype_size(dtype));
    copy.ahead = b->ahead ? ls_fetch_ahead(b->spec, &copy) : 0;
    add(b, LS_SECTION_LANES,
        &(ls_instr){.op = LS_TILE_OP_STORE,
                    .log2 = copy.log2,
                    .dtype = (uint8_t)dtype,
                    .dst = b->isa->store[dtype] ? new_reg(b, LS_SECTION_LANES, copy.log2, true) : -1,
                    .a = ls_pb_operand(b, LS_SECTION_LANES, reg),
                    .b = -1,
                    .c = -1,
                    .access = add_access(b, &copy),
                    .cast = b->isa->store[dtype],
                    .name = "store"});
    return !b->failed;
}

bool ls_pb_store(ls_program_builder *b, const ls_store *s) {
    ls_dtype dtype = (ls_dtype)b->spec->values[s->value].dtype;
    int16_t reg = ls_pb_value(b, s->value, 0, NULL);
    ls_ix_sum linear;
    ls_ix_sum_of(b->spec, s->ix, &linear);
    if (s->combine == LS_STORE_SET && s->n_preds == 0 && s->check == LS_SPEC_NONE && !linear.n_rest &&
        !linear.failed) {
        ls_access access = {.buffer = s->arg, .offset = linear.constant};
        ls_access_from_strides(b->spec, linear.n_terms, linear.axis, linear.stride, b->n_lane_axes,
                               b->lane_axes, &access);
        return ls_pb_store_access(b, reg, dtype, &access);
    }
    int16_t mask = preds_mask(b, s->first_pred, s->n_preds, -1);
    if (s->check != LS_SPEC_NONE) {
        mask = ls_pb_both(b, mask, in_range(b, LS_SECTION_LANES, s->check, s->limit, mask, s->origin));
    }
    int log2 = ls_tile_log2(ls_dtype_size(dtype));
    int16_t at = ix_reg(b, s->ix);
    add(b, LS_SECTION_LANES,
        &(ls_instr){.op = LS_TILE_OP_SCATTER,
                    .log2 = (uint8_t)log2,
                    .dtype = (uint8_t)dtype,
                    .combine = (uint8_t)s->combine,
                    .dst = -1,
                    .a = ls_pb_operand(b, LS_SECTION_LANES, reg),
                    .b = ls_pb_operand(b, LS_SECTION_LANES, at),
                    .c = ls_pb_operand(b, LS_SECTION_LANES, mask),
                    .access = s->arg,
                    .cast = b->isa->store[dtype],
                    .name = "scatter"});
    return !b->failed;
}

