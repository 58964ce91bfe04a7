/* lockstep-cpu.wasm holds no checks of devices: lockstep.wasm does. */
#include "../src/page.h"

static ls_status none(ls_error *err) {
    if (err && err->code == LS_OK) {
        *err = (ls_error){.code = LS_ERR_UNSUPPORTED, .message = "lockstep-cpu.wasm holds no checks of devices: load lockstep.wasm"};
    }
    return LS_ERR_UNSUPPORTED;
}

int ls_museum_case(int number, const char **out_name, const char **out_about) {
    (void)number, (void)out_name, (void)out_about;
    return 0;
}

int ls_museum_fault(int number, const char **out_name, const char **out_about, const char **out_case) {
    (void)number, (void)out_name, (void)out_about, (void)out_case;
    return 0;
}

ls_status ls_museum_run(ls_context *context, ls_device *device, const char *filter, const char *plant, ls_case_fn each, void *user,
                        ls_case_totals *out_totals, ls_error *err) {
    (void)context, (void)device, (void)filter, (void)plant, (void)each, (void)user;
    *out_totals = (ls_case_totals){0};
    return none(err);
}

ls_status ls_conform_row(ls_context *context, ls_device *device, const ls_conform_options *options, int number, ls_row_result *out_result,
                         ls_error *err) {
    (void)context, (void)device, (void)options, (void)number;
    *out_result = (ls_row_result){0};
    return none(err);
}

ls_status ls_ulps_measure(ls_context *context, ls_device *device, ls_ulp_fn each, void *user, int *out_beyond, ls_error *err) {
    (void)context, (void)device, (void)each, (void)user;
    *out_beyond = 0;
    return none(err);
}
