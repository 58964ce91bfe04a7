/* write_models DIR: small models for the tests of the command. */
#include "onnx/writer.h"

int main(int argc, char **argv) {
    static const struct {
        const char *file;
        small_model model;
    } models[] = {
        {"add.onnx",
         {.op = "Add",
          .opset = 14,
          .n_in = 2,
          .n_out = 1,
          .in = {{"a/left", 1, 2, {-1, 3}}, {"b", 1, 2, {-1, 3}}},
          .out = {{"out/sum", 1, 2, {-1, 3}}}}},
        {"markup.onnx", /* names that would break out of a page */
         {.op = "Mul",
          .name = "</script><script>document.title='taken'</script><!--\"'&amp;\\u003c",
          .opset = 14,
          .n_in = 2,
          .n_out = 1,
          .in = {{"x\"><img src=x onerror=\"document.title='taken'\">", 1, 2, {-1, 3}}, {"b", 1, 2, {-1, 3}}},
          .out = {{"<!--<script>out", 1, 2, {-1, 3}}}}},
        {"not.onnx",
         {.op = "Not",
          .opset = 14,
          .n_in = 1,
          .n_out = 1,
          .in = {{"x", 9, 1, {4}}},
          .out = {{"y", 9, 1, {4}}}}},
        {"unknown.onnx",
         {.op = "Frobnicate",
          .domain = "org.example",
          .opset = 3,
          .n_in = 1,
          .n_out = 1,
          .in = {{"x", 1, 1, {4}}},
          .out = {{"y", 1, 1, {4}}}}},
        {"planes.onnx",
         {.op = "Identity",
          .opset = 14,
          .n_in = 1,
          .n_out = 1,
          .in = {{"x", 1, 4, {1, 3, -1, 2}}},
          .out = {{"y", 1, 4, {1, 3, -1, 2}}}}},
        {"pixels.onnx",
         {.op = "Identity",
          .opset = 14,
          .n_in = 1,
          .n_out = 1,
          .in = {{"x", 2, 3, {2, 2, 3}}},
          .out = {{"y", 2, 3, {2, 2, 3}}}}},
        {"clip.onnx",
         {.op = "Identity", .opset = 14, .n_in = 1, .n_out = 1, .in = {{"x", 1, 3, {1, 1, -1}}}, .out = {{"y", 1, 3, {1, 1, -1}}}}},
        {"frame.onnx", /* i16 */
         {.op = "Identity", .opset = 14, .n_in = 1, .n_out = 1, .in = {{"x", 5, 2, {-1, 3}}}, .out = {{"y", 5, 2, {-1, 3}}}}},
        {"huge.onnx", /* 2^62 floats */
         {.op = "Relu", .opset = 14, .n_in = 1, .n_out = 1, .in = {{"x", 1, 2, {2147483648, 2147483648}}}, .out = {{"y", 1, 2, {2147483648, 2147483648}}}}},
        {"twins.onnx", /* outputs whose names are one file's */
         {.op = "Split",
          .opset = 13,
          .n_in = 1,
          .n_out = 2,
          .in = {{"x", 1, 2, {4, 3}}},
          .out = {{"a/b", 1, 2, {2, 3}}, {"a:b", 1, 2, {2, 3}}}}},
        {"strings.onnx",
         {.op = "Identity",
          .opset = 14,
          .n_in = 1,
          .n_out = 1,
          .in = {{"x", 8, 1, {4}}},
          .out = {{"y", 8, 1, {4}}}}},
    };
    char path[1024];
    for (size_t i = 0; argc == 2 && i < sizeof models / sizeof *models; i++) {
        if (snprintf(path, sizeof path, "%s/%s", argv[1], models[i].file) >= (int)sizeof path ||
            !write_model(path, &models[i].model)) {
            fprintf(stderr, "write_models: %s cannot be written\n", path);
            return 1;
        }
    }
    return argc == 2 ? 0 : 2;
}
