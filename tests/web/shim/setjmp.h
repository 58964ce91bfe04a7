/* The tests include it for cmocka; cmocka.h here needs none, and wasi-libc has none. */
