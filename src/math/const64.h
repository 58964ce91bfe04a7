// Constants of math.inc for f64. Each polynomial: its number of terms, then coefficients from the constant
// term up, as printed by the call of tools/minimax.c above it. Constants X_H, X_L (X_1, X_2) are the nearest
// f64 of X and of the rest; LN2_1 times any exponent and LOG2OF3HALVES_1 plus any exponent are exact, for
// they have few enough bits.
#ifndef LOCKSTEP_MATH_CONST64_H
#define LOCKSTEP_MATH_CONST64_H

#define LS_K64_MANT 52
#define LS_K64_BIAS 1023
#define LS_K64_LOGBITS 6
#define LS_K64_WORD uint64_t
#define LS_K64_SIGN 0x8000000000000000u
#define LS_K64_INF 0x7ff0000000000000u
#define LS_K64_NEGINF 0xfff0000000000000u
#define LS_K64_QNAN 0x7ff8000000000000u
#define LS_K64_HIGHMASK 0xfffffffff8000000u
#define LS_K64_FRACMASK 0x000fffffffffffffu
#define LS_K64_IMPLICIT 0x0010000000000000u
#define LS_K64_TWOTHIRDSBITS 0x3fe5555555555555u
#define LS_K64_MAGIC 0x1.8p+52
#define LS_K64_MAGICBITS 0x4338000000000000u
#define LS_K64_INTEGRAL 0x1p+52
#define LS_K64_MINNORMAL 0x1p-1022
#define LS_K64_SUBSCALE 0x1p+54
#define LS_K64_SUBK 54
#define LS_K64_SUBK_3 18
#define LS_K64_TINY 0x1p-55
#define LS_K64_EXP_MIN -746.0
#define LS_K64_EXP_MAX 710.0
#define LS_K64_EXP2_MIN -1076.0
#define LS_K64_EXP2_MAX 1025.0
#define LS_K64_EM1_MIN -40.0
#define LS_K64_EM1_MAX 711.0
#define LS_K64_BIG_K 64
#define LS_K64_TANH_SPLIT 0.5625
#define LS_K64_TANH_MAX 20.0
#define LS_K64_TANPI8 0.4140625
#define LS_K64_TAN3PI8 2.4140625
#define LS_K64_ATAN_MAX 0x1p+100
#define LS_K64_ERF_SPLIT 0.8125
#define LS_K64_ERF_MAX 5.9375
#define LS_K64_ERFC_SPLIT 0.625
#define LS_K64_ERFC_MAX 27.25
#define LS_K64_LOGERFC_0 -0x1.d97fc0p+0
#define LS_K64_ERFCX_0 0x1.46e80ep+0
#define LS_K64_CBRT_C 0
#define LS_K64_CBRT_K 341
#define LS_K64_POW_MAX 0x1p+80
#define LS_K64_HALFSQRT3BITS 0x3febb67ae8584caau
#define LS_K64_SQRT3HALVES 1.2247448713915890
#define LS_K64_LOG2OF3HALVES_1 0x1.2b803473f78p-1
#define LS_K64_LOG2OF3HALVES_2 0x1.6879fa00b120ap-44
#define LS_K64_LN2_1 0x1.62e42fefa38p-1
#define LS_K64_LN2_2 0x1.ef35793c7673p-45
#define LS_K64_LN2_H 0x1.62e42fefa39efp-1
#define LS_K64_LN2_L 0x1.abc9e3b39803fp-56
#define LS_K64_INVLN2 0x1.71547652b82fep+0
#define LS_K64_INVLN2_L 0x1.777d0ffda0d24p-56
#define LS_K64_PIO4 0x1.921fb54442d18p-1
#define LS_K64_PIO4_L 0x1.1a62633145c07p-55
#define LS_K64_PIO2_H 0x1.921fb54442d18p+0
#define LS_K64_PIO2_L 0x1.1a62633145c07p-54
#define LS_K64_PI_H 0x1.921fb54442d18p+1
#define LS_K64_PI_L 0x1.1a62633145c07p-53
#define LS_K64_TWOTHIRDS_H 0x1.5555555555555p-1
#define LS_K64_TWOTHIRDS_L 0x1.5555555555555p-55
#define LS_K64_PH_OFFSET 0xfffffffffffffc0bu  // -1013 = 64 - 2 - BIAS - MANT
#define LS_K64_PH_WORDS 20
#define LS_K64_PH_STEP 16
#define LS_K64_PH_HALF 0x2000000000000000u
#define LS_K64_PH_S1 11
#define LS_K64_PH_M1 0x7ffu
#define LS_K64_PH_P2 40
#define LS_K64_PH_S2 24
#define LS_K64_PH_M2 0xffffffu
#define LS_K64_PH_U1 0x1p-51
#define LS_K64_PH_U2 0x1p-102
#define LS_K64_PH_U3 0x1p-126

// 2/pi in words, behind one word of zeros
#define LS_K64_PH_TABLE  \
    0x0000000000000000u, 0xa2f9836e4e441529u, 0xfc2757d1f534ddc0u, 0xdb6295993c439041u, \
    0xfe5163abdebbc561u, 0xb7246e3a424dd2e0u, 0x06492eea09d1921cu, 0xfe1deb1cb129a73eu, \
    0xe88235f52ebb4484u, 0xe99c7026b45f7e41u, 0x3991d639835339f4u, 0x9c845f8bbdf9283bu, \
    0x1ff897ffde05980fu, 0xef2f118b5a0a6d1fu, 0x6d367ecf27cb09b7u, 0x4f463f669e5fea2du, \
    0x7527bac7ebe5f17bu, 0x3d0739f78a5292eau, 0x6bfb5fb11f8d5d08u, 0x56033046fc7b6babu

// minimax expm1 -0.34658 0.34658 10 f64: error 3.53e-19
#define LS_K64_EXP 10, \
    0x1.5555555555559p-3, 0x1.5555555555552p-5, 0x1.111111110f5ep-7, 0x1.6c16c16c1749fp-10, \
    0x1.a01a01b0531b2p-13, 0x1.a01a01a4f9189p-16, 0x1.71ddf70452cdap-19, 0x1.27e4d6d2ab901p-22, \
    0x1.af6161523449bp-26, 0x1.1f877ef170effp-29

// minimax log -0.33334 0.33334 20 f64: error 1.88e-18
#define LS_K64_LOG 20, \
    0x1.5555555555538p-2, -0x1.fffffffffff36p-3, 0x1.99999999a00a4p-3, -0x1.555555556511ap-3, \
    0x1.24924920b88d3p-3, -0x1.fffffff105fffp-4, 0x1.c71c740994fbcp-4, -0x1.99999d53cc6c3p-4, \
    0x1.745cb659a4e05p-4, -0x1.5554c852a9865p-4, 0x1.3b1dad440a11ep-4, -0x1.249f6f72e9724p-4, \
    0x1.1069fc1fcf4d8p-4, -0x1.fe6a4890cee84p-5, 0x1.efb73059cf0b9p-5, -0x1.d6cccd0bad8a1p-5, \
    0x1.563ac9c58d063p-5, -0x1.3a7bc06a5cecp-5, 0x1.5bfe9e7ff1752p-4, -0x1.556367ee4c621p-4

// minimax atanh5 0 0.0103 6 f64: error 3.64e-22
#define LS_K64_ATANH5 6, \
    0x1.9999999999956p-2, 0x1.24924924a7f8ep-2, 0x1.c71c717416d19p-3, 0x1.745d65371729cp-3, \
    0x1.3aed2d4c13596p-3, 0x1.1aaa5ad90013ep-3

// minimax sin 0 0.61686 7 f64: error 9.3e-20
#define LS_K64_SIN 7, \
    -0x1.5555555555555p-3, 0x1.1111111111068p-7, -0x1.a01a019ffe08cp-13, 0x1.71de3a332c549p-19, \
    -0x1.ae642b99897e5p-26, 0x1.61093a5a81541p-33, -0x1.9fb6a5d28c9d6p-41

// minimax cos 0 0.61686 7 f64: error 1.72e-21
#define LS_K64_COS 7, \
    0x1.5555555555555p-5, -0x1.6c16c16c16b3p-10, 0x1.a01a019ffcb74p-16, -0x1.27e4fb5a1ec3ep-22, \
    0x1.1eed6f7dcfb9ap-29, -0x1.93744f20da613p-37, 0x1.9dac3c6d253acp-45

// minimax atan 0 0.1717 11 f64: error 1.31e-18
#define LS_K64_ATAN 11, \
    -0x1.555555555553cp-2, 0x1.999999999564ep-3, -0x1.24924922a069bp-3, 0x1.c71c70e108513p-4, \
    -0x1.745cf84bb3aap-4, 0x1.3b110f020d28dp-4, -0x1.10eb44b13395dp-4, 0x1.df08ac8d3df47p-5, \
    -0x1.9cb4abcd7a7eap-5, 0x1.37889eab44714p-5, -0x1.24c03de0d1727p-6

// minimax asin 0 0.25 14 f64: error 6.23e-20
#define LS_K64_ASIN 14, \
    0x1.5555555555553p-3, 0x1.33333333339e9p-4, 0x1.6db6db6d4c419p-5, 0x1.f1c71ca6e8b02p-6, \
    0x1.6e8b9b1849a49p-6, 0x1.1c4f82920a8f3p-6, 0x1.c9812dcf44cacp-7, 0x1.7ba16716c804cp-7, \
    0x1.36d5841da31c5p-7, 0x1.47b2fbfa2340fp-7, 0x1.751a941ff612p-11, 0x1.95bd4eb14bfedp-6, \
    -0x1.ab2bcf7c39dddp-6, 0x1.13425baa0946dp-5

// minimax erf 0 0.6607 12 f64: error 1.1e-17
#define LS_K64_ERF 12, \
    0x1.06eba8214db69p-3, -0x1.812746b037a37p-2, 0x1.ce2f21a04767p-4, -0x1.b82ce31439f46p-6, \
    0x1.565bcd5f400bap-8, -0x1.c02dc59df6baap-11, 0x1.f9a58bf008457p-14, -0x1.f507d8cbf6537p-17, \
    0x1.bce50b8013773p-20, -0x1.79f5f97dff803p-23, 0x1.814d2954d1928p-26, -0x1.af82b9138ae53p-29

// minimax logerfc -0.1875 5 21 f64: error 2.19e-19
#define LS_K64_LOGERFC 21, \
    0x1.b0ababde7d34ap-25, -0x1.51c9b0006c23dp+1, -0x1.afabc11a28f3ap-1, -0x1.5477f09ca93e4p-5, \
    0x1.48c9d40c0e0cap-7, -0x1.033f699529c4dp-9, 0x1.f1b4bb6ec54fep-13, 0x1.b8be6a91ab4c5p-16, \
    -0x1.c75a389a65298p-16, 0x1.415c5fe4c606fp-17, -0x1.0ee872e4e3e06p-19, 0x1.b690542009b13p-24, \
    0x1.12d8688adc5c1p-23, -0x1.29658f2bd3d16p-24, 0x1.7dcea07c5aa89p-26, -0x1.6310215a51146p-28, \
    0x1.ea453fe1e8eacp-31, -0x1.e87a6b62a7bbbp-34, 0x1.476ff489c8034p-37, -0x1.00ffd2751283bp-41, \
    0x1.503fc3c141d6cp-47

// minimax erfcx -0.53 0.8645 25 f64: error 1.89e-17
#define LS_K64_ERFCX 25, \
    0x1.13bca9b3b4717p-27, -0x1.7bf5ec1700632p-4, -0x1.5407bebf32446p-3, 0x1.4ffa1e14e27ffp-3, \
    -0x1.bc2b9561986ebp-5, -0x1.074234049f21bp-7, 0x1.1dd2ec9094937p-7, 0x1.4d461d4d3c1b3p-10, \
    -0x1.7de52102aa621p-10, -0x1.dc693bac108e1p-12, 0x1.b0c89520a4e8ep-13, 0x1.3cc16866f1e67p-13, \
    -0x1.95a395fd19852p-20, -0x1.319f18156de53p-15, -0x1.c4551ce8ebe63p-17, 0x1.f68d73c0d8846p-19, \
    0x1.5a3206107c8ebp-18, 0x1.8457f7372f787p-20, -0x1.0c8a1169f85b3p-21, -0x1.c605b44ff8875p-21, \
    -0x1.30cf945d32203p-21, 0x1.6bfb294ef9f7fp-22, 0x1.631a141c6b906p-22, -0x1.b757601ac378bp-23, \
    0x1.8ee403ba4d5a3p-26

// minimax cbrt 1 8 5 f64: error 0.00187
#define LS_K64_CBRT 5, \
    0x1.412cc5b0ec2bcp-1, 0x1.cbf97325a664ep-2, -0x1.57248e81ac8fdp-4, 0x1.3a0aee7b4ccffp-7, \
    -0x1.c5173f4fd0e57p-12

// minimax tanh 0 0.317 12 f64: error 2.98e-20
#define LS_K64_TANH 12, \
    -0x1.5555555555555p-2, 0x1.111111111107dp-3, -0x1.ba1ba1ba10956p-5, 0x1.664f487f7623ap-6, \
    -0x1.226e34cb5c6acp-7, 0x1.d6d3b02e1a08fp-9, -0x1.7da0f60ccad0fp-10, 0x1.35386d2f5f5e5p-11, \
    -0x1.f34195b7d8272p-13, 0x1.88b3697238b24p-14, -0x1.10d73d81a303bp-15, 0x1.e327a70549ce6p-18

#endif
