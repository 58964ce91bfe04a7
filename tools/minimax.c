// minimax: fits the polynomials of src/math. Weighted discrete Remez exchange in MPFR, then each coefficient
// is rounded to f32 or f64 in ascending order and the rest refitted, so rounding costs almost nothing. Usage:
// minimax TARGET LO HI TERMS f32|f64 [CENTRE]        prints hex-float coefficients, constant term first.
#include <math.h>
#include <mpfr.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PREC 320
#define GRID 3000
#define MAXN 40

typedef void target_fn(mpfr_t g, mpfr_t w, const mpfr_t x);

static mpfr_t ta, tb, tc; // scratch
static int centre;        // of targets that have several pieces

// exp: exp(r) = 1 + r + r^2/2 + r^3 g(r), error relative to exp(r)
static void t_exp(mpfr_t g, mpfr_t w, const mpfr_t x) {
    mpfr_expm1(g, x, MPFR_RNDN);
    mpfr_sub(g, g, x, MPFR_RNDN);
    mpfr_sqr(ta, x, MPFR_RNDN);
    mpfr_div_2ui(tb, ta, 1, MPFR_RNDN);
    mpfr_sub(g, g, tb, MPFR_RNDN);
    mpfr_mul(ta, ta, x, MPFR_RNDN);
    mpfr_div(g, g, ta, MPFR_RNDN);
    mpfr_exp(w, x, MPFR_RNDN);
    mpfr_div(w, ta, w, MPFR_RNDN);
}

// expm1: the same g, error relative to expm1(r)
static void t_expm1(mpfr_t g, mpfr_t w, const mpfr_t x) {
    t_exp(g, w, x);
    mpfr_expm1(w, x, MPFR_RNDN);
    mpfr_div(w, ta, w, MPFR_RNDN);
}

// log: log(1+f) = f - f^2/2 + f^3 g(f), error relative to log(1+f)
static void t_log(mpfr_t g, mpfr_t w, const mpfr_t x) {
    mpfr_log1p(ta, x, MPFR_RNDN);
    mpfr_sqr(tb, x, MPFR_RNDN);
    mpfr_div_2ui(tc, tb, 1, MPFR_RNDN);
    mpfr_sub(g, ta, x, MPFR_RNDN);
    mpfr_add(g, g, tc, MPFR_RNDN);
    mpfr_mul(tb, tb, x, MPFR_RNDN);
    mpfr_div(g, g, tb, MPFR_RNDN);
    mpfr_div(w, tb, ta, MPFR_RNDN);
}

// atanh: 2 atanh(s) = 2 s + 2 s^3/3 + s^5 g(s^2) in z = s^2, error relative to 2 atanh(s)
static void t_atanh5(mpfr_t g, mpfr_t w, const mpfr_t z) {
    mpfr_sqrt(ta, z, MPFR_RNDN);
    mpfr_atanh(g, ta, MPFR_RNDN);
    mpfr_mul_2ui(g, g, 1, MPFR_RNDN);
    mpfr_set(w, g, MPFR_RNDN);
    mpfr_mul_2ui(tb, ta, 1, MPFR_RNDN);
    mpfr_sub(g, g, tb, MPFR_RNDN);
    mpfr_mul(tb, tb, z, MPFR_RNDN);
    mpfr_div_ui(tc, tb, 3, MPFR_RNDN);
    mpfr_sub(g, g, tc, MPFR_RNDN);
    mpfr_mul(tc, ta, z, MPFR_RNDN);
    mpfr_mul(tc, tc, z, MPFR_RNDN);
    mpfr_div(g, g, tc, MPFR_RNDN);
    mpfr_div(w, tc, w, MPFR_RNDN);
}

// Odd functions F: F(x) = x + x^3 g(x^2), in z = x^2, error relative to F(x)
static void odd(mpfr_t g, mpfr_t w, const mpfr_t z, int (*f)(mpfr_t, const mpfr_t, mpfr_rnd_t)) {
    mpfr_sqrt(ta, z, MPFR_RNDN);
    f(tb, ta, MPFR_RNDN);
    mpfr_mul(tc, ta, z, MPFR_RNDN);
    mpfr_sub(g, tb, ta, MPFR_RNDN);
    mpfr_div(g, g, tc, MPFR_RNDN);
    mpfr_div(w, tc, tb, MPFR_RNDN);
}
static void t_sin(mpfr_t g, mpfr_t w, const mpfr_t z) {
    odd(g, w, z, mpfr_sin);
}
static void t_tan(mpfr_t g, mpfr_t w, const mpfr_t z) {
    odd(g, w, z, mpfr_tan);
}
static void t_atan(mpfr_t g, mpfr_t w, const mpfr_t z) {
    odd(g, w, z, mpfr_atan);
}
static void t_asin(mpfr_t g, mpfr_t w, const mpfr_t z) {
    odd(g, w, z, mpfr_asin);
}
static void t_sinh(mpfr_t g, mpfr_t w, const mpfr_t z) {
    odd(g, w, z, mpfr_sinh);
}
static void t_tanh(mpfr_t g, mpfr_t w, const mpfr_t z) {
    odd(g, w, z, mpfr_tanh);
}

// cos: cos(x) = 1 - z/2 + z^2 g(z), z = x^2
static void t_cos(mpfr_t g, mpfr_t w, const mpfr_t z) {
    mpfr_sqrt(ta, z, MPFR_RNDN);
    mpfr_cos(ta, ta, MPFR_RNDN);
    mpfr_div_2ui(tb, z, 1, MPFR_RNDN);
    mpfr_sub_ui(g, ta, 1, MPFR_RNDN);
    mpfr_add(g, g, tb, MPFR_RNDN);
    mpfr_sqr(tb, z, MPFR_RNDN);
    mpfr_div(g, g, tb, MPFR_RNDN);
    mpfr_div(w, tb, ta, MPFR_RNDN);
}

// erf: erf(x) = x + x g(z), z = x^2
static void t_erf(mpfr_t g, mpfr_t w, const mpfr_t z) {
    mpfr_sqrt(ta, z, MPFR_RNDN);
    mpfr_erf(tb, ta, MPFR_RNDN);
    mpfr_div(g, tb, ta, MPFR_RNDN);
    mpfr_sub_ui(g, g, 1, MPFR_RNDN);
    mpfr_div(w, ta, tb, MPFR_RNDN);
}

// erfat: erf(a + r) / (a + r) = 1/2 + g(r) at the centre a, in 128ths the call's sixth argument; error relative to it
static void t_erfat(mpfr_t g, mpfr_t w, const mpfr_t r) {
    mpfr_add_d(ta, r, centre * 0x1p-7, MPFR_RNDN);
    mpfr_erf(tb, ta, MPFR_RNDN);
    mpfr_div(g, tb, ta, MPFR_RNDN);
    mpfr_sub_d(g, g, 0.5, MPFR_RNDN);
    mpfr_div(w, ta, tb, MPFR_RNDN);
}

// logerfc: log(erfc(1 + t)) = -0x1.d97fc0p+0 + g(t), weight erfc/erf: the relative error of 1 - exp(g)
static void t_logerfc(mpfr_t g, mpfr_t w, const mpfr_t t) {
    mpfr_add_ui(tc, t, 1, MPFR_RNDN);
    mpfr_erfc(ta, tc, MPFR_RNDN);
    mpfr_log(g, ta, MPFR_RNDN);
    mpfr_sub_d(g, g, -0x1.d97fc0p+0, MPFR_RNDN);
    mpfr_erf(tb, tc, MPFR_RNDN);
    mpfr_div(w, ta, tb, MPFR_RNDN);
}

// erfcx: with t = (x-2)/(x+2), (1 + 2x) exp(x^2) erfc(x) = 0x1.46e80ep+0 + g(t), relative error
static void t_erfcx(mpfr_t g, mpfr_t w, const mpfr_t t) {
    mpfr_add_ui(ta, t, 1, MPFR_RNDN);
    mpfr_mul_2ui(ta, ta, 1, MPFR_RNDN);
    mpfr_ui_sub(tb, 1, t, MPFR_RNDN);
    mpfr_div(ta, ta, tb, MPFR_RNDN); // x = 2 (1+t)/(1-t)
    mpfr_erfc(g, ta, MPFR_RNDN);
    mpfr_sqr(tb, ta, MPFR_RNDN);
    mpfr_exp(tb, tb, MPFR_RNDN);
    mpfr_mul(g, g, tb, MPFR_RNDN);
    mpfr_mul_2ui(tb, ta, 1, MPFR_RNDN);
    mpfr_add_ui(tb, tb, 1, MPFR_RNDN);
    mpfr_mul(g, g, tb, MPFR_RNDN);
    mpfr_ui_div(w, 1, g, MPFR_RNDN);
    mpfr_sub_d(g, g, 0x1.46e80ep+0, MPFR_RNDN);
}

// cbrt: g(x) = x^(1/3), relative error (a first guess)
static void t_cbrt(mpfr_t g, mpfr_t w, const mpfr_t x) {
    mpfr_cbrt(g, x, MPFR_RNDN);
    mpfr_ui_div(w, 1, g, MPFR_RNDN);
}

static const struct {
    const char *name;
    target_fn *fn;
} targets[] = {{"exp", t_exp},         {"expm1", t_expm1}, {"log", t_log},   {"atanh5", t_atanh5},
               {"sin", t_sin},         {"tan", t_tan},     {"atan", t_atan}, {"asin", t_asin},
               {"sinh", t_sinh},       {"tanh", t_tanh},   {"cos", t_cos},   {"erf", t_erf},
               {"erfat", t_erfat},
               {"logerfc", t_logerfc}, {"erfcx", t_erfcx}, {"cbrt", t_cbrt}};

static mpfr_t X[GRID], G[GRID], W[GRID], E[GRID], A[MAXN + 1][MAXN + 2], coef[MAXN], kept[MAXN];

// Gaussian elimination with partial pivoting of the n x (n+1) system in A; the answer lands in column n.
static void solve(int n) {
    mpfr_t f;
    mpfr_init2(f, PREC);
    for (int i = 0; i < n; i++) {
        int p = i;
        for (int r = i + 1; r < n; r++)
            if (mpfr_cmpabs(A[r][i], A[p][i]) > 0)
                p = r;
        for (int c = 0; c <= n; c++)
            mpfr_swap(A[i][c], A[p][c]);
        for (int r = 0; r < n; r++) {
            if (r == i)
                continue;
            mpfr_div(f, A[r][i], A[i][i], MPFR_RNDN);
            for (int c = i; c <= n; c++) {
                mpfr_mul(ta, f, A[i][c], MPFR_RNDN);
                mpfr_sub(A[r][c], A[r][c], ta, MPFR_RNDN);
            }
        }
    }
    for (int i = 0; i < n; i++)
        mpfr_div(A[i][n], A[i][n], A[i][i], MPFR_RNDN);
    mpfr_clear(f);
}

static void errors(int terms) {
    for (int i = 0; i < GRID; i++) {
        mpfr_set_ui(ta, 0, MPFR_RNDN);
        for (int j = terms - 1; j >= 0; j--) {
            mpfr_mul(ta, ta, X[i], MPFR_RNDN);
            mpfr_add(ta, ta, coef[j], MPFR_RNDN);
        }
        mpfr_sub(ta, ta, G[i], MPFR_RNDN);
        mpfr_mul(E[i], ta, W[i], MPFR_RNDN);
    }
}

static double max_error(void) {
    double m = 0;
    for (int i = 0; i < GRID; i++) {
        double e = mpfr_get_d(E[i], MPFR_RNDN);
        if (e < 0)
            e = -e;
        if (e > m)
            m = e;
    }
    return m;
}

// Picks n alternating extrema of E; returns how many were found.
static int exchange(int *ref, int n) {
    int found[GRID], m = 0;
    for (int i = 0; i < GRID; i++) {
        int s = mpfr_sgn(E[i]);
        if (m > 0 && mpfr_sgn(E[found[m - 1]]) == s) {
            if (mpfr_cmpabs(E[i], E[found[m - 1]]) > 0)
                found[m - 1] = i;
        } else if (s != 0) {
            found[m++] = i;
        }
    }
    int a = 0, b = m;
    while (b - a > n) { // drop the weaker end
        if (mpfr_cmpabs(E[found[a]], E[found[b - 1]]) < 0)
            a++;
        else
            b--;
    }
    if (b - a < n)
        return b - a;
    memcpy(ref, found + a, (size_t)n * sizeof *ref);
    return n;
}

// Best fit of coefficients first..terms-1 with the lower ones fixed.
static void remez(int first, int terms) {
    int n = terms - first + 1, ref[MAXN + 1];
    for (int i = 0; i < n; i++)
        ref[i] = i * (GRID - 1) / (n - 1);
    double last = 0, best = INFINITY;
    for (int it = 0; it < 40; it++) {
        for (int i = 0; i < n; i++) {
            int p = ref[i];
            mpfr_set_ui(tb, 1, MPFR_RNDN);
            mpfr_set(A[i][n], G[p], MPFR_RNDN);
            for (int j = 0; j < terms; j++) {
                if (j < first) {
                    mpfr_mul(ta, tb, coef[j], MPFR_RNDN);
                    mpfr_sub(A[i][n], A[i][n], ta, MPFR_RNDN);
                } else {
                    mpfr_set(A[i][j - first], tb, MPFR_RNDN);
                }
                mpfr_mul(tb, tb, X[p], MPFR_RNDN);
            }
            mpfr_ui_div(A[i][n - 1], 1, W[p], MPFR_RNDN);
            if (i & 1)
                mpfr_neg(A[i][n - 1], A[i][n - 1], MPFR_RNDN);
        }
        solve(n);
        for (int j = first; j < terms; j++)
            mpfr_set(coef[j], A[j - first][n], MPFR_RNDN);
        errors(terms);
        double m = max_error();
        if (m < best) {
            best = m;
            for (int j = first; j < terms; j++)
                mpfr_set(kept[j], coef[j], MPFR_RNDN);
        }
        if (exchange(ref, n) < n || (it > 2 && m <= last * 1.000001 && m >= last * 0.999999))
            break;
        last = m;
    }
    for (int j = first; j < terms; j++)
        mpfr_set(coef[j], kept[j], MPFR_RNDN);
}

int main(int argc, char **argv) {
    target_fn *fn = NULL;
    for (size_t i = 0; argc >= 6 && argc <= 7 && i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(argv[1], targets[i].name))
            fn = targets[i].fn;
    int terms = fn ? atoi(argv[4]) : 0;
    if (!fn || terms < 1 || terms > MAXN - 1) {
        fprintf(stderr, "usage: minimax TARGET LO HI TERMS f32|f64 [PIECE]\n");
        return 2;
    }
    int f32 = !strcmp(argv[5], "f32");
    centre = argc > 6 ? atoi(argv[6]) : 0;
    mpfr_set_default_prec(PREC);
    mpfr_inits(ta, tb, tc, (mpfr_ptr)0);
    mpfr_t lo, hi, c;
    mpfr_inits(lo, hi, c, (mpfr_ptr)0);
    mpfr_set_str(lo, argv[2], 10, MPFR_RNDN);
    mpfr_set_str(hi, argv[3], 10, MPFR_RNDN);
    for (int i = 0; i < GRID; i++) { // Chebyshev-spaced, and never exactly 0, where the targets are 0/0
        mpfr_inits(X[i], G[i], W[i], E[i], (mpfr_ptr)0);
        mpfr_const_pi(c, MPFR_RNDN);
        mpfr_mul_d(c, c, (double)i / (GRID - 1), MPFR_RNDN);
        mpfr_cos(c, c, MPFR_RNDN);
        mpfr_ui_sub(c, 1, c, MPFR_RNDN);
        mpfr_div_2ui(c, c, 1, MPFR_RNDN);
        mpfr_sub(X[i], hi, lo, MPFR_RNDN);
        mpfr_mul(X[i], X[i], c, MPFR_RNDN);
        mpfr_add(X[i], X[i], lo, MPFR_RNDN);
        if (mpfr_get_d(X[i], MPFR_RNDN) < 1e-12 && mpfr_get_d(X[i], MPFR_RNDN) > -1e-12)
            mpfr_set_d(X[i], 1e-12, MPFR_RNDN);
        fn(G[i], W[i], X[i]);
    }
    for (int i = 0; i <= MAXN; i++)
        for (int j = 0; j <= MAXN + 1; j++)
            mpfr_init(A[i][j]);
    mpfr_t rounded[MAXN];
    double plain = 0;
    for (int j = 0; j < terms; j++)
        mpfr_inits(coef[j], kept[j], rounded[j], (mpfr_ptr)0);
    // Refitting after each rounding can stall where 0 lies inside the interval (the basis then has a common
    // zero), so plain rounding is tried too and the better one printed.
    for (int pass = 0; pass < 2; pass++) {
        for (int j = 0; j < terms; j++) {
            if (j == 0 || pass == 1)
                remez(j, terms);
            if (j == 0 && pass == 0)
                printf("// %s [%s, %s] %d terms, unrounded error %.3g", argv[1], argv[2], argv[3], terms,
                       max_error());
            mpfr_set_d(coef[j], f32 ? mpfr_get_flt(coef[j], MPFR_RNDN) : mpfr_get_d(coef[j], MPFR_RNDN),
                       MPFR_RNDN);
        }
        errors(terms);
        if (pass == 0) {
            plain = max_error();
            for (int j = 0; j < terms; j++)
                mpfr_set(rounded[j], coef[j], MPFR_RNDN);
        }
    }
    if (max_error() > plain)
        for (int j = 0; j < terms; j++)
            mpfr_set(coef[j], rounded[j], MPFR_RNDN);
    errors(terms);
    double m = max_error();
    printf(", rounded %.3g\n", m);
    for (int j = 0; j < terms; j++)
        printf("%a%s%s", mpfr_get_d(coef[j], MPFR_RNDN), f32 ? "f" : "", j + 1 < terms ? ", " : "\n");
    return 0;
}
