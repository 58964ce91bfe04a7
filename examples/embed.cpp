// Lockstep inside a C++ program: handles in smart pointers, failures as exceptions. Fits a line to points by gradient
// descent, and asks the library to verify every kernel that it ran.
#include <cstdio>
#include <lockstep/lockstep.h>
#include <memory>
#include <stdexcept>
#include <vector>

namespace {

template <class T>
using handle = std::unique_ptr<T, void (*)(T *)>;

void check(ls_status status, const ls_error &err) {
    if (status != LS_OK) {
        throw std::runtime_error(err.message);
    }
}

class session {
  public:
    session() {
        ls_error err{};
        ls_context *context = nullptr;
        ls_session *s = nullptr;
        check(ls_context_create(nullptr, &context, &err), err);
        context_.reset(context);
        check(ls_session_create(context, nullptr, &s, &err), err);
        session_.reset(s);
    }
    operator ls_session *() const {
        return session_.get();
    }
    void check_own(ls_status status) const {
        check(status, *ls_session_error(session_.get()));
    }

  private:
    handle<ls_context> context_{nullptr, ls_context_destroy}; // destroyed last
    handle<ls_session> session_{nullptr, ls_session_destroy};
};

// Returns slope and offset of y = 3x - 1, learned.
std::vector<float> fit(const session &s) {
    std::vector<float> xs, ys, line(2);
    for (int i = 0; i < 16; i++) {
        xs.push_back(static_cast<float>(i) / 8 - 1);
        ys.push_back(3 * xs.back() - 1);
    }
    ls_params *made = nullptr;
    s.check_own(ls_params_create(s, 1, &made));
    handle<ls_params> params(made, ls_params_destroy);
    ls_tensor *x = ls_tensor_from(s, LS_F32, LS_SHAPE(16, 1), xs.data());
    ls_tensor *y = ls_tensor_from(s, LS_F32, LS_SHAPE(16, 1), ys.data());
    ls_tensor *loss = ls_mse(s, ls_nn_linear(s, params.get(), "line", x, 1), y);

    ls_verification *verified = nullptr;
    s.check_own(ls_verify(s, &loss, 1, &verified));
    std::printf("%d kernels verified: %s\n", verified->n_kernels,
                verified->verdict == LS_SAME ? "the same bits" : "no");
    bool right = verified->verdict == LS_SAME;
    ls_verification_free(s, verified);
    if (!right) {
        throw std::runtime_error("the device differs from the reference");
    }
    ls_optimizer_options options{};
    options.kind = LS_OPTIM_SGD;
    options.momentum = 0.9;
    ls_optimizer *optimizer = nullptr;
    s.check_own(ls_optimizer_create(s, params.get(), &options, &optimizer));
    handle<ls_optimizer> optimizer_owner(optimizer, ls_optimizer_destroy);
    s.check_own(ls_optimizer_step(s, optimizer, loss, ls_full(s, LS_F32, LS_SCALAR, 0.1)));
    ls_program *step = nullptr;
    s.check_own(ls_program_compile(s, nullptr, 0, &loss, 1, &step));
    handle<ls_program> step_owner(step, ls_program_destroy);
    for (int i = 0; i < 200; i++) {
        s.check_own(ls_program_run(step, nullptr, nullptr));
    }
    s.check_own(ls_var_read(s, ls_params_find(params.get(), "line.weight"), &line[0], sizeof(float)));
    s.check_own(ls_var_read(s, ls_params_find(params.get(), "line.bias"), &line[1], sizeof(float)));
    return line;
}

} // namespace

int main() try {
    session s;
    std::vector<float> line = fit(s);
    std::printf("y = %.4f x + %.4f\n", static_cast<double>(line[0]), static_cast<double>(line[1]));
    return line[0] > 2.999f && line[0] < 3.001f && line[1] > -1.001f && line[1] < -0.999f ? 0 : 1;
} catch (const std::exception &e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
}
