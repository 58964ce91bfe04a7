/* The version of the library, also in its soname and in pkg-config. */
#ifndef LOCKSTEP_VERSION_H
#define LOCKSTEP_VERSION_H

#include <lockstep/status.h>

#define LS_VERSION_MAJOR 0
#define LS_VERSION_MINOR 1
#define LS_VERSION_PATCH 0
#define LS_VERSION "0.1.0"

/* The version of the contract of arithmetic (docs/contract.md) that locked results follow: the same bits for one version,
 * whatever the version of the library. */
#define LS_CONTRACT_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library that is loaded, as LS_VERSION was when it was built. Any thread. */
LS_API const char *ls_version(void);

#ifdef __cplusplus
}
#endif
#endif
