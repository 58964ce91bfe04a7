// Constants of math.inc for f32. Each polynomial: its number of terms, then coefficients from the constant
// term up, as printed by the call of tools/minimax.c above it. Constants X_H, X_L (X_1, X_2) are the nearest
// f32 of X and of the rest; LN2_1 times any exponent and LOG2OF3HALVES_1 plus any exponent are exact, for
// they have few enough bits.
#ifndef LOCKSTEP_MATH_CONST32_H
#define LOCKSTEP_MATH_CONST32_H

#define LS_K32_MANT 23
#define LS_K32_BIAS 127
#define LS_K32_LOGBITS 5
#define LS_K32_WORD uint32_t
#define LS_K32_SIGN 0x80000000u
#define LS_K32_INF 0x7f800000u
#define LS_K32_NEGINF 0xff800000u
#define LS_K32_QNAN 0x7fc00000u
#define LS_K32_HIGHMASK 0xfffff000u
#define LS_K32_FRACMASK 0x007fffffu
#define LS_K32_IMPLICIT 0x00800000u
#define LS_K32_TWOTHIRDSBITS 0x3f2aaaabu
#define LS_K32_MAGIC 0x1.8p+23
#define LS_K32_MAGICBITS 0x4b400000u
#define LS_K32_INTEGRAL 0x1p+23
#define LS_K32_MINNORMAL 0x1p-126
#define LS_K32_SUBSCALE 0x1p+24
#define LS_K32_SUBK 24
#define LS_K32_SUBK_3 8
#define LS_K32_TINY 0x1p-26
#define LS_K32_EXP_MIN -104.0
#define LS_K32_EXP_MAX 89.0
#define LS_K32_EXP2_MIN -151.0
#define LS_K32_EXP2_MAX 129.0
#define LS_K32_EM1_MIN -20.0
#define LS_K32_EM1_MAX 90.0
#define LS_K32_BIG_K 32
#define LS_K32_TANH_SPLIT 0.5625
#define LS_K32_TANH_MAX 10.0
#define LS_K32_TANPI8 0.4140625
#define LS_K32_TAN3PI8 2.4140625
#define LS_K32_ATAN_MAX 0x1p+60
#define LS_K32_ERF_SPLIT 0.8125
#define LS_K32_ERF_MAX 3.9375
#define LS_K32_ERFC_SPLIT 0.625
#define LS_K32_ERFC_MAX 10.0625
#define LS_K32_LOGERFC_0 -0x1.d97fc0p+0
#define LS_K32_ERFCX_0 0x1.46e80ep+0
#define LS_K32_CBRT_C 2
#define LS_K32_CBRT_K 43
#define LS_K32_POW_MAX 0x1p+40
#define LS_K32_HALFSQRT3BITS 0x3f5db3d7u
#define LS_K32_SQRT3HALVES 0x1.3988e2p+0
#define LS_K32_LOG2OF3HALVES_1 0x1.2b8p-1
#define LS_K32_LOG2OF3HALVES_2 0x1.a39fbep-20
#define LS_K32_LN2_1 0x1.62e4p-1
#define LS_K32_LN2_2 0x1.7f7d1cp-20
#define LS_K32_LN2_H 0x1.62e43p-1
#define LS_K32_LN2_L -0x1.05c61p-29
#define LS_K32_INVLN2 0x1.715476p+0
#define LS_K32_INVLN2_L 0x1.4ae0cp-26
#define LS_K32_PIO4 0x1.921fb6p-1
#define LS_K32_PIO4_L -0x1.777a5cp-26
#define LS_K32_PIO2_H 0x1.921fb6p+0
#define LS_K32_PIO2_L -0x1.777a5cp-25
#define LS_K32_PI_H 0x1.921fb6p+1
#define LS_K32_PI_L -0x1.777a5cp-24
#define LS_K32_TWOTHIRDS_H 0x1.555556p-1
#define LS_K32_TWOTHIRDS_L -0x1.555556p-26
#define LS_K32_PH_OFFSET 0xffffff88u  // -120 = 32 - 2 - BIAS - MANT
#define LS_K32_PH_WORDS 8
#define LS_K32_PH_STEP 4
#define LS_K32_PH_HALF 0x20000000u
#define LS_K32_PH_S1 8
#define LS_K32_PH_M1 0xffu
#define LS_K32_PH_P2 14
#define LS_K32_PH_S2 18
#define LS_K32_PH_M2 0x3ffffu
#define LS_K32_PH_U1 0x1p-22
#define LS_K32_PH_U2 0x1p-44
#define LS_K32_PH_U3 0x1p-62

// 2/pi in words, behind one word of zeros
#define LS_K32_PH_TABLE  \
    0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, \
    0xfe5163abu

// minimax expm1 -0.34658 0.34658 5 f32: error 4.67e-10
#define LS_K32_EXP 5, \
    0x1.555554p-3, 0x1.5554eap-5, 0x1.1113acp-7, 0x1.6d4caep-10, 0x1.9c5f12p-13

// minimax exp -0.34658 0.34658 4 f32: error 4.3e-09 (fast.inc)
#define LS_K32_EXP_FAST 4, \
    0x1.555466p-3, 0x1.5552fep-5, 0x1.1257d4p-7, 0x1.6ff112p-10

// exp(r) = 1 + r (1 + r (A + B r)), |r| <= ln 2 / 32: error 1.6e-09; 2^(i/16) (fast.inc)
#define LS_K32_EXP_NEAR 2, \
    0x1.00021ep-1, 0x1.55559ap-3
#define LS_K32_EXP_MAGIC 0x1.8p+19
#define LS_K32_SIXTEENTHS \
    0x1p+0, 0x1.0b5586p+0, 0x1.172b84p+0, 0x1.2387a6p+0, 0x1.306fep+0, 0x1.3dea64p+0, 0x1.4bfdaep+0, 0x1.5ab07ep+0, \
    0x1.6a09e6p+0, 0x1.7a1148p+0, 0x1.8ace54p+0, 0x1.9c4918p+0, 0x1.ae89fap+0, 0x1.c199bep+0, 0x1.d5818ep+0, 0x1.ea4afap+0

// minimax erfat LO HI 6 f32 CENTRE, CENTRE 33 times the piece, LO and HI -0.12891 and 0.12891 but for LO 0 of piece 0: errors up to
// 2.5e-08. A list has the coefficients of one power, of all sixteen pieces (fast.inc)
#define LS_K32_ERF_PIECES 0x1.f07c2p+1 /* 128/33 */
#define LS_K32_ERF_PIECE 0x21p-7
#define LS_K32_ERF_END 0x1.fe8p+1 /* where the last piece is 1 */
#define LS_K32_ERF_AT_0 \
    0x1.41baeap-1, 0x1.352e6cp-1, 0x1.125e34p-1, 0x1.c1243ap-2, 0x1.51424ep-2, 0x1.c83c9ap-3, 0x1.05f6f8p-3, 0x1.8ab37ap-5, \
    -0x1.145562p-6, -0x1.1c8b3ap-4, -0x1.cbabfp-4, -0x1.2de24ap-3, -0x1.6a073ap-3, -0x1.9cf16ap-3, -0x1.c896c4p-3, -0x1.ee6a8cp-3
#define LS_K32_ERF_AT_1 \
    0x1.7eb76cp-22, -0x1.7db812p-3, -0x1.5373cep-2, -0x1.a55484p-2, -0x1.b4af9ap-2, -0x1.9401a8p-2, -0x1.5b6a08p-2, -0x1.1e63b6p-2, \
    -0x1.cfd13ep-3, -0x1.776eb8p-3, -0x1.32e03p-3, -0x1.fcbcaap-4, -0x1.abd654p-4, -0x1.6c9f2ep-4, -0x1.3a6822p-4, -0x1.11e2a8p-4
#define LS_K32_ERF_AT_2 \
    -0x1.812cbap-2, -0x1.54d9acp-2, -0x1.c6bf94p-3, -0x1.6a15d2p-4, 0x1.88616ep-6, 0x1.7852d8p-4, 0x1.dc0f3ap-4, 0x1.c8cb44p-4, \
    0x1.801846p-4, 0x1.2e644ep-4, 0x1.d01f7p-5, 0x1.63ceap-5, 0x1.13efecp-5, 0x1.b2ebep-6, 0x1.5c647ep-6, 0x1.1b4914p-6
#define LS_K32_ERF_AT_3 \
    0x1.af76b4p-12, 0x1.b83c84p-4, 0x1.59b254p-3, 0x1.559ceap-3, 0x1.e62108p-4, 0x1.d64a34p-5, 0x1.25fc8p-7, -0x1.1f6cd4p-6, \
    -0x1.aa2c42p-6, -0x1.92380ap-6, -0x1.41e61cp-6, -0x1.e0c7b4p-7, -0x1.5fbb04p-7, -0x1.027d4ep-7, -0x1.81b8aap-8, -0x1.24f49ep-8
#define LS_K32_ERF_AT_4 \
    0x1.c1e50ep-4, 0x1.650d78p-4, 0x1.d29298p-6, -0x1.d7e25ap-6, -0x1.db0beep-5, -0x1.c99d76p-5, -0x1.2ad3c2p-5, -0x1.033cdp-6, \
    -0x1.20ee6cp-9, 0x1.f42afp-9, 0x1.4d3576p-8, 0x1.1ef34p-8, 0x1.ab5d42p-9, 0x1.2e9b6ap-9, 0x1.a9ae1ep-10, 0x1.2f13c6p-10
#define LS_K32_ERF_AT_5 \
    0x1.cea9aap-9, -0x1.2b1096p-5, -0x1.96e3bcp-5, -0x1.22f04ap-5, -0x1.3210dep-7, 0x1.5f1d84p-7, 0x1.1a307ap-6, 0x1.c2d9b2p-7, \
    0x1.e09706p-8, 0x1.3a0a4ap-9, -0x1.27c154p-14, -0x1.b49fdp-11, -0x1.b5c7d2p-11, -0x1.4b887cp-11, -0x1.caca6ap-12, -0x1.3710eep-12

// minimax erfat LO HI 10 f32 CENTRE, CENTRE 146 times the piece, LO and HI -0.57032 and 0.57032 but for LO 0 of piece 0: errors up to
// 1.8e-08. A row has the coefficients of one power, of all four pieces (fast.inc)
#define LS_K32_ERF4_PIECES 0x1.c0e07p-1 /* 64/73 */
#define LS_K32_ERF4_PIECE 0x49p-6
#define LS_K32_ERF4 \
    {0x1.41baeap-1, 0x1.21f0b2p-2, -0x1.fd7ddp-5, -0x1.a97f9ep-3}, \
    {0x1.2587a8p-22, -0x1.ab4704p-2, -0x1.837a02p-3, -0x1.5dcc4ap-4}, \
    {-0x1.812a9ap-2, 0x1.e02deap-5, 0x1.3a501ap-4, 0x1.98be94p-6}, \
    {0x1.db57fcp-13, 0x1.7aa01ep-4, -0x1.9b7f26p-6, -0x1.dc797ep-8}, \
    {0x1.c5dfd2p-4, -0x1.f0f8bep-5, 0x1.b80324p-9, 0x1.12567ep-9}, \
    {0x1.4e2096p-7, 0x1.81b9d2p-11, 0x1.83a926p-9, -0x1.2d3b4ep-11}, \
    {-0x1.d26d7p-5, 0x1.c5f16cp-7, -0x1.599d3p-9, 0x1.1add6cp-13}, \
    {0x1.a61926p-5, -0x1.1c8cap-8, 0x1.f5e646p-11, -0x1.f8c946p-17}, \
    {-0x1.579d7cp-5, -0x1.813ff4p-10, 0x1.a65158p-16, -0x1.9dc362p-17}, \
    {0x1.19f73p-6, 0x1.03224ep-10, -0x1.38c396p-13, 0x1.301ffcp-17}

// minimax log -0.33334 0.33334 9 f32: error 1.04e-09
#define LS_K32_LOG 9, \
    0x1.555556p-2, -0x1.ffff02p-3, 0x1.99985ep-3, -0x1.559bbp-3, 0x1.24d7b2p-3, -0x1.f336f6p-4, \
    0x1.bb4584p-4, -0x1.07d336p-3, 0x1.e07596p-4

// minimax atanh5 0 0.0103 3 f32: error 4.56e-14
#define LS_K32_ATANH5 3, \
    0x1.99999ep-2, 0x1.248a86p-2, 0x1.cf97fp-3

// minimax sin 0 0.61686 4 f32: error 1.63e-10
#define LS_K32_SIN 4, \
    -0x1.555556p-3, 0x1.111174p-7, -0x1.a05954p-13, 0x1.7c2c4ep-19

// minimax cos 0 0.61686 4 f32: error 7.2e-12
#define LS_K32_COS 4, \
    0x1.555556p-5, -0x1.6c175ep-10, 0x1.a071c6p-16, -0x1.361c22p-22

// minimax atan 0 0.1717 5 f32: error 7.01e-10
#define LS_K32_ATAN 5, \
    -0x1.55554ap-2, 0x1.9991ep-3, -0x1.23b966p-3, 0x1.b21ff8p-4, -0x1.f2cbf8p-5

// minimax asin 0 0.25 6 f32: error 2.89e-10
#define LS_K32_ASIN 6, \
    0x1.55554cp-3, 0x1.3338acp-4, 0x1.6ca754p-5, 0x1.04d2e6p-5, 0x1.d522dcp-7, 0x1.34c5acp-5

// minimax erf 0 0.6607 6 f32: error 3.94e-09
#define LS_K32_ERF 6, \
    0x1.06eba8p-3, -0x1.81273p-2, 0x1.ce27fep-4, -0x1.b7695p-6, 0x1.4d0308p-8, -0x1.54fedep-11

// minimax logerfc -0.1875 2.95 7 f32: error 2.48e-09
#define LS_K32_LOGERFC 7, \
    0x1.42376p-25, -0x1.51c9bp+1, -0x1.afab86p-1, -0x1.54784p-5, 0x1.47bf6p-7, -0x1.f5153ep-10, \
    0x1.b4ebe2p-13

// minimax erfcx -0.53 0.67 11 f32: error 1.16e-09
#define LS_K32_ERFCX 11, \
    0x1.09e0e2p-27, -0x1.7bf5ecp-4, -0x1.5407b8p-3, 0x1.4ffa06p-3, -0x1.bc2e6cp-5, -0x1.0725b6p-7, \
    0x1.1e3e1ap-7, 0x1.4614fap-10, -0x1.8ab1b4p-10, -0x1.7189b4p-12, 0x1.1b42acp-12

// minimax cbrt 1 8 4 f32: error 0.00522
#define LS_K32_CBRT 4, \
    0x1.5d05a8p-1, 0x1.7546e8p-2, -0x1.62ccp-5, 0x1.2f32eap-9

// minimax tanh 0 0.317 5 f32: error 1.42e-09
#define LS_K32_TANH 5, \
    -0x1.555548p-2, 0x1.110c5ep-3, -0x1.b905c4p-5, 0x1.58128ap-6, -0x1.945d3p-8

#endif
