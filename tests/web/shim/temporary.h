/* Included before every test: the functions of temporary names, which wasi-libc lacks. */
#ifndef LOCKSTEP_TESTS_WEB_TEMPORARY_H
#define LOCKSTEP_TESTS_WEB_TEMPORARY_H

char *mkdtemp(char *pattern);
int mkstemp(char *pattern);

#endif
