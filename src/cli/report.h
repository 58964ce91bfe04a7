/* What the reports of the command and of a page have in common, as JSON that the caller owns. Public headers alone: the page's module
 * has this file too. */
#ifndef LOCKSTEP_CLI_REPORT_H
#define LOCKSTEP_CLI_REPORT_H

#include <cjson/cJSON.h>
#include <lockstep/lockstep.h>
#include <stdbool.h>

/* "certified", "refused" or "missing". */
const char *report_locked(const ls_device_info *device);
/* {"id", "name", "locked", "caps"}, as `lockstep devices --json` lists it. */
cJSON *report_device(const char *id, const ls_caps *caps, const char *locked);
/* Of a kernel that is wrong: the comparison that says so. */
const ls_report *report_wrong(const ls_kernel_report *kernel);
/* "same", "within bound", "differs". */
const char *report_verdict(ls_verdict verdict);
/* {"verdict", "elements", "different", "outside", "blind", "worst_of_bound" (null: infinite), "bins"}; where it differs also "index",
 * "expected", "got", "message". */
cJSON *report_comparison(const ls_report *report);
/* {"kernel", "node", "number", "launches", "operations", "type", "origins", "reads", "ref" (null: not compared), "oracle"} */
cJSON *report_kernel(const ls_kernel_report *kernel);
/* {"kernel", "node", "index", "expected", "got"} of the first kernel that is wrong, else of a wrong output; null: nothing is. */
cJSON *report_divergence(const ls_verification *verification);

#endif
