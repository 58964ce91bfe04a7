/* WebAssembly has no limits to set: tests of them are skipped by name (CMakeLists.txt). */
#ifndef LOCKSTEP_TESTS_WEB_RESOURCE_H
#define LOCKSTEP_TESTS_WEB_RESOURCE_H

typedef unsigned long rlim_t;
struct rlimit {
    rlim_t rlim_cur, rlim_max;
};
enum { RLIMIT_FSIZE };
int getrlimit(int what, struct rlimit *limit);
int setrlimit(int what, const struct rlimit *limit);

#endif
