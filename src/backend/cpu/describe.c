/* Compiled kernels as text, for lockstep inspect: their phases, and the tile programs of those. */
#include "backend/cpu/contract.h"
#include "backend/cpu/quant.h"

static void print_access(ls_text *out, const ls_spec *spec, const ls_program *p, const ls_access *a) {
    ls_text_printf(out, a->buffer < spec->n_args ? " arg%d[%lld" : " temp%d[%lld",
                   a->buffer < spec->n_args ? a->buffer : a->buffer - spec->n_args, (long long)a->offset);
    for (int i = 0; i < a->n_scalar; i++) {
        ls_text_printf(out, " + %lld*x%d", (long long)a->scalar_stride[i], a->scalar_axis[i]);
    }
    for (int i = 0; i < a->n_dims; i++) {
        ls_text_printf(out, " + %lld*(x%d", (long long)a->dims[i].stride, p->lane_axes[a->dims[i].first]);
        ls_text_printf(out, a->dims[i].last > a->dims[i].first ? "..x%d)" : ")",
                       p->lane_axes[a->dims[i].last]);
    }
    for (int i = 0; i < a->n_tables; i++) {
        ls_text_add(out, " + table(");
        for (int j = 0; j < a->tables[i].n_axes; j++) {
            ls_text_printf(out, j ? ",x%d" : "x%d", a->tables[i].axes[j]);
        }
        ls_text_add(out, ")");
    }
    ls_text_add(out, "]");
}

static void print_fused(ls_text *out, const ls_fused *f) {
    static const char *const names[] = {
        [LS_CHAIN_TAKE] = "take", [LS_CHAIN_KEEP] = "keep", [LS_CHAIN_ADD] = "add",   [LS_CHAIN_SUB] = "sub",
        [LS_CHAIN_FROM] = "from", [LS_CHAIN_MUL] = "mul",   [LS_CHAIN_DIV] = "div",   [LS_CHAIN_DIV_NEAR] = "div near",
        [LS_CHAIN_INTO] = "into", [LS_CHAIN_MIN] = "min",   [LS_CHAIN_MAX] = "max",   [LS_CHAIN_SQUARE] = "square",
        [LS_CHAIN_CALL] = "call", [LS_CHAIN_PASS] = "pass", [LS_CHAIN_PRODUCT] = "product"};
    ls_text_printf(out, " r%d", f->operands[0]);
    for (int i = 0; i < f->n_steps; i++) {
        const ls_chain_step *s = &f->steps[i];
        ls_text_printf(out, s->kind == LS_CHAIN_NONE ? ", %s" : ", %s r%d", names[s->op],
                       s->kind == LS_CHAIN_SCALAR ? f->scalars[s->at] : f->operands[s->at]);
    }
}

static void print_program(ls_text *out, const ls_spec *spec, const ls_program *p) {
    static const char *const titles[] = {"launch", "point", "rows", "lanes"};
    for (int s = 0; s < LS_SECTION_COUNT; s++) {
        if (!p->n_instrs[s]) {
            continue;
        }
        ls_text_printf(out, "    %s", titles[s]);
        for (int i = 0; s == LS_SECTION_LANES && i < p->n_lane_axes; i++) {
            ls_text_printf(out, " x%d", p->lane_axes[i]);
        }
        ls_text_add(out, "\n");
        for (int i = 0; i < p->n_instrs[s]; i++) {
            const ls_instr *in = &p->instrs[s][i];
            ls_text_add(out, "      ");
            if (in->dst >= 0) {
                ls_text_printf(out, "r%d = ", in->dst);
            }
            ls_text_add(out, in->name);
            if (in->op == LS_TILE_OP_LOAD || in->op == LS_TILE_OP_OVERLAY || in->op == LS_TILE_OP_STORE || in->op == LS_TILE_OP_PRESENT ||
                in->op == LS_TILE_OP_TAKE) {
                print_access(out, spec, p, &p->accesses[in->access]);
            } else if (in->op == LS_TILE_OP_CONST) {
                ls_text_printf(out, " 0x%llx", (unsigned long long)in->bits);
            } else if (in->op == LS_TILE_OP_COORD) {
                ls_text_printf(out, " x%d", in->access);
            } else if (in->op == LS_TILE_OP_GATHER || in->op == LS_TILE_OP_SCATTER) {
                ls_text_printf(out, " arg%d", in->access);
            }
            if (in->op == LS_TILE_OP_FUSED) {
                print_fused(out, p->fused[in->access]);
            }
            const int16_t used[3] = {in->a, in->b, in->c};
            for (int j = 0; j < 3; j++) {
                if (used[j] >= 0) {
                    ls_text_printf(out, " r%d", used[j]);
                }
            }
            ls_text_add(out, "\n");
        }
    }
}

static void print_group(ls_text *out, const char *name, const ls_axis_group *group) {
    ls_text_printf(out, " %s(", name);
    for (int i = 0; i < group->n; i++) {
        ls_text_printf(out, i ? ",x%d" : "x%d", group->axes[i]);
    }
    ls_text_add(out, ")");
}

static void print_gemm(ls_text *out, const ls_spec *spec, const ls_phase *phase) {
    const ls_gemm_phase *gemm = phase->gemm;
    ls_text_add(out, "   ");
    print_group(out, "batch", &gemm->batch);
    print_group(out, "rows", &gemm->m);
    print_group(out, "columns", &gemm->n);
    print_group(out, "k", &gemm->k);
    ls_text_add(out, "\n");
    if (gemm->windows) {
        ls_windows_print(out, gemm->windows);
    }
    if (gemm->quant) {
        ls_quant_print(out, gemm->quant);
    }
    if (gemm->sparse) {
        ls_sparse_print(out, gemm->sparse);
    }
    for (int s = 0; s < 2; s++) {
        const ls_contract_side *side = &gemm->side[s];
        ls_text_printf(out, "    %s v%d: %s%s\n", s ? "columns" : "rows", side->value,
                       side->view      ? "view"
                       : side->affine  ? "packed from affine loads"
                       : side->lanes_k ? "packed by a program along k"
                       : LS_JOINS && side->joined ? "packed from joined tensors"
                                       : "packed by a program along the free axes",
                       side->absent ? ", may be absent" : "");
        if (!side->affine) {
            print_program(out, spec, &side->program);
        }
    }
    ls_text_add(out, gemm->chain ? "    then, in registers\n" : "    then\n");
}

static void print_band(ls_text *out, const ls_kernel_binary *binary) {
    if (binary->band.n_axes) {
        ls_text_printf(out, "  in blocks of %lld points of", (long long)binary->band.block);
        for (int i = 0; i < binary->band.n_axes; i++) {
            ls_text_printf(out, " x%d", binary->band.axes[i]);
        }
        for (int i = 0; i < binary->n_temps; i++) {
            if (binary->temps[i].result) {
                ls_text_printf(out, ", temp%d in arg%d", i, binary->temps[i].result - 1);
            }
        }
        ls_text_add(out, "\n");
    }
}

void ls_cpu_describe(const ls_kernel_binary *binary, ls_text *out) {
    static const char *const kinds[] = {"store",        "rows", "columns", "arg rows",   "arg columns",
                                        "sums (naive)", "gemm", "scan",    "scan lines", "sort"};
    ls_text_printf(out, "%s: %d phases, %zu bytes of temporaries, %zu of scratch a worker\n",
                   binary->spec.name, binary->n_phases, binary->temps_size, binary->scratch_size);
    print_band(out, binary);
    for (int i = 0; i < binary->n_phases; i++) {
        const ls_phase *phase = &binary->phases[i];
        ls_text_printf(out, "  phase %d: %s", i, kinds[phase->kind]);
        if (phase->value != LS_SPEC_NONE) {
            ls_text_printf(out, " v%d", phase->value);
        }
        ls_text_add(out, phase->serial    ? ", in order\n"
                         : phase->pooling ? ", windows of a plane\n"
                         : phase->points  ? ", in registers\n"
                         : !LS_SMALL && phase->moves ? ", moved\n"
                                          : "\n");
        if (phase->kind == LS_PHASE_GEMM) {
            print_gemm(out, &binary->spec, phase);
        } else if (phase->kind != LS_PHASE_STORE) {
            print_program(out, &binary->spec, &phase->program);
            ls_text_add(out, "    then\n");
        }
        print_program(out, &binary->spec, &phase->finish);
    }
}
