/* Prints docs/ops.md: the primitives from src/graph/op.def, the composites from the table below. */
#include "graph/graph.h"
#include <stdio.h>

typedef struct row {
    const char *call, *result, *meaning;
} row;

typedef struct family {
    const char *title;
    const row *rows;
} family;

static const row elementwise[] = {
    {"ls_gt(a, b)", "bool", "`lt` with the operands exchanged"},
    {"ls_ge(a, b)", "bool", "`le` with the operands exchanged"},
    {"ls_relu(x)", "as x", "`max(x, 0)`"},
    {"ls_sigmoid(x)", "as x", "`1 / (1 + exp(min(-x, 88)))`, 709 in f64: finite, and so its derivative"},
    {"ls_silu(x)", "as x", "`x * sigmoid(x)`"},
    {"ls_gelu(x)", "as x", "`x * 0.5 * (1 + erf(x * sqrt(1/2)))`"},
    {"ls_gelu_tanh(x)", "as x", "`x * 0.5 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 * x*x*x)))`"},
    {"ls_mod(a, b)", "broadcast", "`rem`, plus b where it is not 0 and of the other sign: Python's `%`"},
    {"ls_pow_int(a, b)", "broadcast, of a's dtype", "integers: products by squaring, as many as b has bits; they wrap"},
    {"ls_asinh(x)", "as x", "`log1p(a + a*a / (sqrt(a*a + 1) + 1))` of `|x|`, beyond 2^30 `log(a) + ln 2`"},
    {"ls_acosh(x)", "as x", "`log1p(u + sqrt(u * (u + 2)))` with `u = x - 1`, beyond 2^30 `log(x) + ln 2`"},
    {"ls_atanh(x)", "as x", "`(log1p(x) - log1p(-x)) / 2`"},
    {"ls_softplus(x)", "as x", "`log1p(exp(x))`; x itself from 30 on, 40 in f64"},
    {"ls_mish(x)", "as x", "`x * tanh(softplus(x))`"},
    {"ls_elu(x, alpha)", "as x", "`where(0 < x, x, alpha * expm1(min(x, 0)))`"},
    {"ls_leaky_relu(x, slope)", "as x", "`where(x < 0, slope * x, x)`"},
    {0}};

static const row movement[] = {
    {"ls_transpose(x, i, j)", "axes i and j exchanged", "`permute`"},
    {"ls_narrow(x, axis, start, length)", "the axis shortened", "`slice`"},
    {"ls_flip(x, axis)", "as x", "`slice` with step -1; an axis with a symbol: `gather`"},
    {"ls_stack(xs, axis)", "a new axis", "`concat` of operands with a new axis of extent 1"},
    {"ls_squeeze(x, axis)", "without the axis", "`reshape`; the extent must be 1"},
    {"ls_unsqueeze(x, axis)", "a new axis of extent 1", "`reshape`"},
    {"ls_pad_absent(x, pads)", "padded",
     "`pad` whose new elements `sum`, `amax`, `contract`, ... skip; anything else reads +0"},
    {0}};

static const row folds[] = {
    {"ls_mean(x, axes)", "without the axes", "`sum / n`; n may hold a symbol"},
    {"ls_variance(x, axes, correction)", "without the axes",
     "`sum((x - mean)^2) / (n - correction)`, two passes"},
    {"ls_softmax(x, axis)", "as x", "`e / sum(e)` with `e = exp(x - amax(x))`"},
    {"ls_log_softmax(x, axis)", "as x", "`d - log(sum(exp(d)))` with `d = x - amax(x)`"},
    {"ls_layer_norm(x, axis, gamma, beta, eps)", "as x",
     "`d / sqrt(mean(d*d) + eps) * gamma + beta`, `d = x - mean(x)`, over the axes from `axis` on"},
    {"ls_rms_norm(x, axis, gamma, eps)", "as x", "`x / sqrt(mean(x*x) + eps) * gamma`"},
    {"ls_group_norm(x, groups, gamma, beta, eps)", "as x[N,C,...]",
     "as layer_norm, over each group of channels"},
    {"ls_batch_norm(x, mean, variance, gamma, beta, eps)", "as x[N,C,...]",
     "`(x - mean) / sqrt(variance + eps) * gamma + beta` by channel"},
    {"ls_batch_norm_train(x, gamma, beta, eps)", "as x; mean[C], variance[C]",
     "with the batch's own mean and biased variance, which are results too"},
    {"ls_logsumexp(x, axes)", "without the axes", "`amax(x) + log(sum(exp(x - amax(x))))`"},
    {"ls_masked_softmax(x, axis)", "as x", "as softmax; -infinity gives exactly +0, also in a row that holds nothing else"},
    {"ls_local_response_norm(x[N,C,...], size, alpha, beta, k)", "as x",
     "`x / (k + alpha/size * sum)^beta`, the sum of squares over `window(pad_absent(x))` of the channels"},
    {"ls_det(x[...,n,n])", "[...]", "elimination with partial pivoting, column after column"},
    {0}};

static const row products[] = {
    {"ls_matmul(a, b)", "as NumPy's `@`", "one `contract`; batch axes broadcast"},
    {"ls_linear(x[...,in], w[out,in], bias)", "[...,out]", "one `contract`, and `+ bias`"},
    {"ls_dequantize(x u8[...,bytes], kind)", "[...,k] f32", "codes (`and`, `shr`, `bitcast`) as f32 times the f16 scale of their block of 32 (`lockstep/quant.h`)"},
    {"ls_linear_q(x[...,k], w u8[n,bytes], kind, bias)", "[...,n]", "`ls_linear(x, ls_dequantize(w), bias)` in f32"},
    {"ls_conv(x, w, bias, spec)", "by its axis maps",
     "one `contract` of `window(pad_absent(x))` with w over (kernel spatial..., channel); groups are a batch "
     "axis (3-D with "
     "several channels a group: one `contract` a group)"},
    {"ls_conv_transpose(x, w, bias, spec)",
     "(in-1)*stride - low - high + dilation*(k-1) + output_padding + 1",
     "one `contract` of windows, read backwards, of x padded with interior stride-1, over (tap of the "
     "forward filter..., channel)"},
    {"ls_im2col(x[N,C,spatial...], kernel, spec)", "[N, C*kernel..., positions]",
     "`pad` with 0, `window`, `permute`, `reshape`"},
    {"ls_col2im(cols, image, kernel, spec)", "image",
     "each tap's image (`pad` with interior stride-1), added in ascending tap"},
    {"ls_max_pool(x, kernel, spec)", "by its axis maps", "`amax` over `window(pad_absent(x))`"},
    {"ls_avg_pool(x, kernel, spec, count_pad)", "by its axis maps",
     "`sum` over `window(pad_absent(x))`, divided by the number of elements that are there, or by all when "
     "count_pad"},
    {"ls_attention(q[B,H,L,D], k[B,G,S,D], v[B,G,S,E], spec)", "[B,H,L,E]",
     "softmax of `q k^T * scale` (plus an added mask) with entries that are not seen at -infinity, so "
     "exactly +0, "
     "contracted with v; a row that sees nothing is +0; H/G heads share each key"},
    {"ls_lstm(x[T,B,I], h0, c0, w_x[4H,I], w_h[4H,H], bias)", "[T,B,H]; h, c",
     "`loop` over T; gates i, f, g, o; `x w_x^T + bias` is one `contract` before it"},
    {"ls_einsum(equation, xs)", "by its labels", "one `contract` for each operand after the first, `sum` and `permute`"},
    {"ls_conv_i32(x, w, spec)", "as `ls_conv`, i32", "the same `contract` of 8- and 16-bit integers"},
    {"ls_deform_conv(x, w, offset, mask, bias, parts, spec)", "as `ls_conv`",
     "`take_along` of the elements around each tap's place, times their weights and the mask; one `contract` with w"},
    {"ls_lp_pool(x, kernel, spec, p)", "by its axis maps", "`(sum |x|^p)^(1/p)` over `window(pad_absent(x))`"},
    {"ls_max_pool_indices(x, kernel, spec, column_major)", "i64", "`argmax` over `window(pad_absent(x))` as a position in x"},
    {"ls_max_unpool(x, index, shape)", "shape", "`scatter` into zeros"},
    {"ls_rotary_embedding(x[B,H,S,D], cosine, sine, interleaved)", "as x", "pairs of features turned: `a cos - b sin`, `a sin + b cos`"},
    {"ls_linear_attention(q, k, v, state, spec)", "[B,H,T,E]; the last state", "`loop` over T of products with the state"},
    {"ls_rnn(x[T,B,I], h0, w_x[H,I], w_h[H,H], b_x, b_h)", "[T,B,H]; h", "`loop` over T; `x w_x^T` is one `contract` before it"},
    {"ls_gru(x[T,B,I], h0, w_x[3H,I], w_h[3H,H], b_x, b_h)", "[T,B,H]; h", "the same; gates r, z, n"},
    {"ls_recurrent(x, h0, c0, w_x, w_h, b_x, b_h, spec)", "[T,B,H]; h, c",
     "the cells as ONNX has them: directions, lengths, peepholes, bounds and activations of one's own"},
    {0}};

static const row layouts[] = {
    {"ls_tile(x, repeats)", "extents times repeats", "`expand` over a new axis, for each axis that is repeated"},
    {"ls_pad_with(x, pads, kind)", "as `ls_pad`",
     "`gather` along each axis that grows, at indices that are clamped, reflected or wrapped"},
    {"ls_depth_to_space(x[N,C,H,W], b, depth_last)`, `ls_space_to_depth(x, b)", "[N,C/b^2,H b,W b] and back",
     "`reshape`, `permute`, `reshape`"},
    {"ls_resize(x, spec)", "spec.size",
     "along each axis in turn: `gather` of the neighbours of every place, times their weights, `sum`; places and "
     "weights are constants, worked out in f64"},
    {"ls_grid_sample(x[N,C,spatial...], grid, mode, padding, align_corners)", "[N,C,positions...]",
     "`take_along` of all neighbours of every place, times the product of their weights along each axis, `sum`"},
    {"ls_affine_grid(theta[N,d,d+1], size, align_corners)", "[N,size...,d]", "`matmul` with the places' coordinates"},
    {"ls_roi_align(x, rois[K,4], batch[K], spec)", "[K,C,height,width]",
     "`gather` of every sample's four pixels, times their weights; `sum` over a bin's samples, divided by their "
     "number, or `amax`"},
    {"ls_roi_max_pool(x, rois[K,4], batch[K], height, width, scale)", "[K,C,height,width]",
     "`amax` over rows, then columns, of what belongs to each bin"},
    {0}};

static const row signals[] = {
    {"ls_dft(x[...,1 or 2], spec)", "[..,k,..,2]", "one `contract` with `ls_dft_matrix`"},
    {"ls_dft_matrix(dtype, extent, parts, spec)", "[n, parts of x, k, parts of y]",
     "`cos` and `sin` of angles that are reduced to an eighth of a turn in integers"},
    {"ls_cosine_window(dtype, n, periodic, a0, a1, a2)", "[n]", "`a0 - a1 cos(2 pi i/N) + a2 cos(4 pi i/N)`"},
    {"ls_hann_window(dtype, n, periodic)`, `ls_hamming_window(dtype, n, periodic)`, `ls_blackman_window(dtype, n, periodic)", "[n]",
     "`ls_cosine_window` of 0.5, 0.5, 0; of 25/46, 21/46, 0; of 0.42, 0.5, 0.08"},
    {"ls_stft(x[batch,samples,1 or 2], step, window, spec)", "[batch,frames,bins,2]", "`window`, times the window, `ls_dft`"},
    {0}};

static const row indexed[] = {
    {"ls_take_along(x, index, axis)", "as index",
     "`gather` of x flattened; an index out of range stays out of range"},
    {"ls_sort(x, axis, descending)", "as x", "`take_along` of `argsort`"},
    {"ls_topk(x, k, axis, largest)", "k along the axis; i64 indices", "the first k of `argsort`"},
    {"ls_one_hot(index, classes, dtype)", "index.shape + [classes]", "`index == iota`"},
    {"ls_embedding(table[v,d], index)", "index.shape + [d]", "`gather`"},
    {"ls_cross_entropy(logits[N,C], labels[N])", "scalar", "mean of `-log_softmax(logits)[label]`"},
    {"ls_mse(prediction, target)", "scalar", "mean of `(prediction - target)^2`"},
    {"ls_put_along(base, index, updates, axis, kind)", "as base", "`scatter` into base flattened"},
    {"ls_gather_nd(x, index[...,k], batch)", "index's axes but the last, then x's after batch + k",
     "`gather` of x with its first batch + k axes as one; a vector out of range stays out of range"},
    {"ls_scatter_nd(base, index[...,k], updates, kind)", "as base", "`scatter` into base with its first k axes as one"},
    {"ls_nll_loss(log_p[N,C,...], labels, weight, ignore, reduction)", "by its reduction",
     "`-weight[label] * log_p[label]` by `take_along`; the mean is over the weights taken"},
    {0}};

static const row randoms[] = {
    {"ls_random_bits(key, shape)", "u32", "the primitive `random`"},
    {"ls_dim_value(dim)", "i64 scalar", "the primitive `dim`; `const` when the extent is fixed"},
    {"ls_random_key(seed)", "u32[2]", "the words of the seed, low first"},
    {"ls_random_split(key, purpose)", "u32[2]",
     "the first two words of the stream of `key ^ (0x9e3779b9, purpose)`"},
    {"ls_random_uniform(key, shape, dtype)", "in [0, 1)",
     "the word's top 24 bits (f16: 11, bf16: 8) over 2^24; f64: 53 bits of two streams"},
    {"ls_random_normal(key, shape, dtype)", "mean 0, variance 1",
     "`sqrt(-2 log u) * cos(2 pi v)`, u in (0, 1], of two streams"},
    {"ls_dropout(x, p, key)", "as x", "`where(p <= uniform(key), x * (1/(1-p)), 0)`"},
    {0}};

static const family families[] = {
    {"Elementwise", elementwise}, {"Movement", movement},
    {"Folds and norms", folds},   {"Products, windows, recurrence", products},
    {"Layouts, images", layouts}, {"Signals", signals},
    {"Indexed, losses", indexed}, {"Random, extents", randoms},
};

static const struct {
    ls_op_class op_class;
    const char *title, *text;
} classes[] = {
    {LS_CLASS_LEAF, "Leaves", "Values without operands."},
    {LS_CLASS_MAP, "Elementwise",
     "Element by element. The builders broadcast as NumPy does, with `reshape` and `expand`; a node's "
     "operands have its shape."},
    {LS_CLASS_MOVE, "Movement", "Index maps: no arithmetic, no copy when a kernel reads through them."},
    {LS_CLASS_REDUCE, "Reductions",
     "Over axes linearised row-major in their declared order (rule C13 of docs/contract.md). Elements that "
     "are absent are skipped."},
    {LS_CLASS_SCAN, "Scan", "Inclusive or exclusive, upwards or downwards (C17)."},
    {LS_CLASS_CONTRACT, "Contraction",
     "Named batch and contracted axes; result axes: batch pairs, a's others, b's others (C15). The result is "
     "of the operands' dtype, f32 "
     "for f16 and bf16, or i32 for 8- and 16-bit integers."},
    {LS_CLASS_GATHER, "Gather",
     "Indices are i32 or i64. Out of range reads NaN (0 for integers) and is reported (C20)."},
    {LS_CLASS_SCATTER, "Scatter", "set, add, mul, min or max, in ascending position of the updates (C18)."},
    {LS_CLASS_SORT, "Sorting", "Stable, NaN last (C19)."},
    {LS_CLASS_RANDOM, "Random", "A function of the key and the element's position alone (C24)."},
    {LS_CLASS_COPY, "Copies", "The one operation whose operand may be on another device (`ls_to_device`)."},
    {LS_CLASS_LOOP, "Loop",
     "`ls_loop` builds the body once, on parameters. What the body uses from outside is computed before the "
     "loop and enters as a "
     "capture; constants and movement stay inside."},
};

static const char *const introduction =
    "# Operations\n\n"
    "Printed by `tools/gen_ops_doc.c` from `src/graph/op.def` and its own table of composites.\n\n"
    "Every operation is a builder `ls_<name>(session, ...)` of `lockstep/ops.h` that returns a node. "
    "Operands are of one session, one "
    "device and one dtype: nothing is promoted (`ls_cast` says where). Ranks are 0 to 8, extents may be 0 or "
    "hold a symbol, axes "
    "may be negative. A builder that refuses its operands returns NULL and records the operation, the "
    "operands' shapes and what was "
    "expected. f16 and bf16 elements are computed in f32 and rounded once for each primitive; composites of "
    "them compute in "
    "f32 and round once at the end, unless the table says otherwise (a convolution's or attention's products "
    "round to the dtype).\n\n"
    "| operands | dtypes |\n|---|---|\n"
    "| ANY | bool, u8 to u64, i8 to i64, f16, bf16, f32, f64 |\n"
    "| NUM | all but bool |\n"
    "| FLOAT | f16, bf16, f32, f64 |\n"
    "| INT | bool and integers |\n"
    "| INTEGER | integers |\n"
    "| SPECIAL | as the text says |\n\n";

static const char *const corners =
    "## Derivatives at corners\n\n"
    "Where an operation has no derivative, gradients take one side:\n\n"
    "| operation | at | derivative |\n|---|---|---|\n"
    "| `abs` | 0 | 0 |\n"
    "| `min`, `max` | equal operands | all to the second: `relu` has 0 at 0 |\n"
    "| `amin`, `amax` | several extremes | all to the one that `argmin`, `argmax` name: the lowest index |\n"
    "| running `min`, `max` | equal elements | all to the first |\n"
    "| `pow(a, b)` | a = 0 | 0 for b; b = 0: 0 for a |\n"
    "| `floor`, `ceil`, `trunc`, `rint`, `sign`, comparisons, casts to integers, `argsort` | everywhere | "
    "none |\n"
    "| `rem(a, b)` | everywhere | 1 for a, `-trunc(a/b)` for b |\n"
    "| `softmax`, `log_softmax`, attention | | none through the maximum, on which the result does not depend "
    "|\n";

static const char *dtypes_name(int dtypes) {
    static const char *const names[] = {
        [LS_DTYPES_ANY] = "ANY", [LS_DTYPES_NUM] = "NUM",         [LS_DTYPES_FLOAT] = "FLOAT",
        [LS_DTYPES_INT] = "INT", [LS_DTYPES_INTEGER] = "INTEGER", [LS_DTYPES_SPECIAL] = "SPECIAL",
    };
    return names[dtypes];
}

/* A bar would end a table's cell. */
static void print_cell(const char *text) {
    for (; *text; text++) {
        if (*text == '|') {
            putchar('\\');
        }
        putchar(*text);
    }
}

static const char *const docs[LS_OP_COUNT] = {
#define OP(id, name, arity, class, dtypes, doc) doc,
#include "graph/op.def"
#undef OP
};

static void print_class(size_t i) {
    printf("### %s\n\n%s\n\n| operation | operands | dtypes | meaning |\n|---|---|---|---|\n",
           classes[i].title, classes[i].text);
    for (int op = 0; op < LS_OP_COUNT; op++) {
        const ls_op_info *info = &ls_ops[op];
        if (info->op_class == classes[i].op_class) {
            printf("| `%s` | ", info->name);
            if (info->arity < 0) {
                printf("any");
            } else {
                printf("%d", info->arity);
            }
            printf(" | %s | ", dtypes_name(info->dtypes));
            print_cell(docs[op]);
            printf(" |\n");
        }
    }
    printf("\n");
}

int main(void) {
    fputs(introduction, stdout);
    printf("## Primitives\n\n%d rows of `op.def`. Each has a derivative rule (or none, by nature), a rule in "
           "the oracle and one in every "
           "backend.\n\n",
           (int)LS_OP_COUNT);
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++) {
        print_class(i);
    }
    printf("## Composites\n\nFunctions over primitives (`src/graph/composite_*.c`): derivatives, fusion, the "
           "oracle and every backend follow "
           "from those.\n\n");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        printf("### %s\n\n| builder | result | meaning |\n|---|---|---|\n", families[i].title);
        for (const row *r = families[i].rows; r->call; r++) {
            printf("| `%s` | ", r->call);
            print_cell(r->result);
            printf(" | ");
            print_cell(r->meaning);
            printf(" |\n");
        }
        printf("\n");
    }
    fputs(corners, stdout);
    return ferror(stdout) || fflush(stdout) != 0;
}
