#!/usr/bin/python3
"""pytorch.py MODEL.onnx INPUTS.npz OUTPUTS.npz: runs a model node by node with PyTorch's operations.

For `lockstep verify --peer tools/peers/pytorch.py`; needs Debian's python3-torch and python3-onnx. PyTorch itself cannot read
ONNX, so what it lacks a function for here is an error that names the operator. With --repeat N it prints, as JSON, the median time of N
runs, the time from the file to the first outputs, and the most memory resident; --threads N (1)."""
import argparse
import json
import resource
import sys
import time

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import numpy_helper

OPS = {}


def op(*names):
    def add(function):
        for name in names:
            OPS[name] = function
        return function
    return add


def numbers(x):
    """A tensor's elements as Python numbers: shapes, axes, pads."""
    return x.flatten().tolist()


def axes_of(a, x, given):
    axes = numbers(given) if given is not None else a.get("axes")
    return [axis % x.ndim for axis in axes] if axes is not None else list(range(x.ndim))


# ---- elementwise ----

for name, function in {
        "Add": torch.add, "Sub": torch.sub, "Mul": torch.mul, "Pow": torch.pow, "Equal": torch.eq, "Less": torch.lt, "Greater": torch.gt,
        "LessOrEqual": torch.le, "GreaterOrEqual": torch.ge, "And": torch.logical_and, "Or": torch.logical_or, "Where": torch.where}.items():
    OPS[name] = lambda a, *x, f=function: f(*x)
for name, function in {
        "Relu": torch.relu, "Sigmoid": torch.sigmoid, "Tanh": torch.tanh, "Exp": torch.exp, "Log": torch.log, "Sqrt": torch.sqrt, "Abs": torch.abs,
        "Neg": torch.neg, "Erf": torch.erf, "Not": torch.logical_not, "Floor": torch.floor, "Ceil": torch.ceil, "Reciprocal": torch.reciprocal,
        "Identity": lambda x: x, "Dropout": lambda x: x, "HardSwish": F.hardswish, "Softplus": F.softplus}.items():
    OPS[name] = lambda a, x, *_, f=function: f(x)


@op("Div")
def div(a, x, y):
    return torch.div(x, y, rounding_mode=None if x.is_floating_point() else "trunc")


@op("Sum", "Max", "Min")
def many(a, *x):
    function = {"Sum": torch.add, "Max": torch.maximum, "Min": torch.minimum}[a["operator"]]
    result = x[0]
    for y in x[1:]:
        result = function(result, y)
    return result


@op("Clip")
def clip(a, x, low=None, high=None):
    low, high = a.get("min", low), a.get("max", high)
    x = torch.maximum(x, torch.as_tensor(low, dtype=x.dtype)) if low is not None else x
    return torch.minimum(x, torch.as_tensor(high, dtype=x.dtype)) if high is not None else x


@op("LeakyRelu")
def leaky_relu(a, x):
    return F.leaky_relu(x, a.get("alpha", 0.01))


@op("PRelu")
def prelu(a, x, slope):
    return torch.where(x < 0, x * slope, x)


@op("HardSigmoid")
def hard_sigmoid(a, x):
    return torch.clamp(a.get("alpha", 0.2) * x + a.get("beta", 0.5), 0, 1)


@op("Gelu")
def gelu(a, x):
    return F.gelu(x, approximate=a.get("approximate", "none"))


@op("Cast")
def cast(a, x):
    return x.to(torch.from_numpy(np.zeros(1, onnx.mapping.TENSOR_TYPE_TO_NP_TYPE[a["to"]])).dtype)


# ---- products and convolutions ----

@op("MatMul")
def matmul(a, x, y):
    return torch.matmul(x, y)


@op("Gemm")
def gemm(a, x, y, c=None):
    x, y = x.T if a.get("transA") else x, y.T if a.get("transB") else y
    result = a.get("alpha", 1.0) * (x @ y)
    return result if c is None else result + a.get("beta", 1.0) * c


def pads_of(a, x, kernel, strides, dilations):
    """[(before, after), ...] of the spatial axes."""
    n, auto = len(kernel), a.get("auto_pad", "NOTSET")
    if auto in ("NOTSET", "VALID"):
        pads = a.get("pads", [0] * 2 * n) if auto == "NOTSET" else [0] * 2 * n
        return [(pads[i], pads[i + n]) for i in range(n)]
    result = []
    for i in range(n):
        size = x.shape[2 + i]
        total = max((-(-size // strides[i]) - 1) * strides[i] + (kernel[i] - 1) * dilations[i] + 1 - size, 0)
        few = total // 2
        result.append((few, total - few) if auto == "SAME_UPPER" else (total - few, few))
    return result


def padded(x, pads, value=0.0):
    return F.pad(x, [p for pair in reversed(pads) for p in pair], value=value) if any(p for pair in pads for p in pair) else x


@op("Conv")
def conv(a, x, w, b=None):
    n = x.ndim - 2
    strides, dilations = a.get("strides", [1] * n), a.get("dilations", [1] * n)
    x = padded(x, pads_of(a, x, w.shape[2:], strides, dilations))
    return (F.conv1d, F.conv2d, F.conv3d)[n - 1](x, w, b, strides, 0, dilations, a.get("group", 1))


@op("ConvTranspose")
def conv_transpose(a, x, w, b=None):
    n = x.ndim - 2
    pads = a.get("pads", [0] * 2 * n)
    if "output_shape" in a or a.get("auto_pad", "NOTSET") != "NOTSET" or pads[:n] != pads[n:]:
        raise NotImplementedError("ConvTranspose with output_shape, auto_pad or uneven pads")
    function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[n - 1]
    return function(x, w, b, a.get("strides", [1] * n), pads[:n], a.get("output_padding", [0] * n), a.get("group", 1), a.get("dilations", [1] * n))


def pool_of(a, x):
    kernel = a["kernel_shape"]
    strides, dilations = a.get("strides", [1] * len(kernel)), a.get("dilations", [1] * len(kernel))
    return kernel, strides, dilations, pads_of(a, x, kernel, strides, dilations)


@op("MaxPool")
def max_pool(a, x):
    kernel, strides, dilations, pads = pool_of(a, x)
    function = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]
    return function(padded(x, pads, -float("inf")), kernel, strides, 0, dilations, bool(a.get("ceil_mode")))


@op("AveragePool")
def average_pool(a, x):
    kernel, strides, _, pads = pool_of(a, x)
    function = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]
    total = function(padded(x, pads), kernel, strides, 0, bool(a.get("ceil_mode")))
    if a.get("count_include_pad") or not any(p for pair in pads for p in pair):
        return total
    return total / function(padded(torch.ones_like(x), pads), kernel, strides, 0, bool(a.get("ceil_mode")))


@op("GlobalAveragePool")
def global_average_pool(a, x):
    return x.mean(dim=list(range(2, x.ndim)), keepdim=True)


# ---- norms and reductions ----

@op("BatchNormalization")
def batch_norm(a, x, scale, bias, mean, variance):
    return F.batch_norm(x, mean, variance, scale, bias, False, 0.0, a.get("epsilon", 1e-5))


@op("LayerNormalization")
def layer_norm(a, x, scale, bias=None):
    return F.layer_norm(x, x.shape[a.get("axis", -1) % x.ndim:], scale, bias, a.get("epsilon", 1e-5))


@op("InstanceNormalization")
def instance_norm(a, x, scale, bias):
    return F.instance_norm(x, None, None, scale, bias, True, 0.0, a.get("epsilon", 1e-5))


@op("Softmax", "LogSoftmax")
def softmax(a, x):
    function = F.softmax if a["operator"] == "Softmax" else F.log_softmax
    if a["opset"] >= 13:
        return function(x, a.get("axis", -1))
    axis = a.get("axis", 1) % x.ndim
    return function(x.reshape(*x.shape[:axis], -1), axis).reshape(x.shape)


@op("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin")
def reduce(a, x, axes=None):
    function = {"ReduceMean": torch.mean, "ReduceSum": torch.sum, "ReduceMax": torch.amax, "ReduceMin": torch.amin}[a["operator"]]
    return function(x, axes_of(a, x, axes), bool(a.get("keepdims", 1)))


# ---- shapes ----

@op("Constant")
def constant(a):
    return next(torch.as_tensor(a[k]) for k in ("value", "value_float", "value_int", "value_floats", "value_ints") if k in a)


@op("ConstantOfShape")
def constant_of_shape(a, shape):
    value = a.get("value", torch.zeros(1))
    return torch.full(numbers(shape), value.item(), dtype=value.dtype)


@op("Shape")
def shape_of(a, x):
    return torch.tensor(x.shape[a.get("start", 0):a.get("end")], dtype=torch.int64)


@op("Size")
def size_of(a, x):
    return torch.tensor(x.numel())


@op("Reshape")
def reshape(a, x, shape):
    return x.reshape([x.shape[i] if n == 0 and not a.get("allowzero") else n for i, n in enumerate(numbers(shape))])


@op("Flatten")
def flatten(a, x):
    axis = a.get("axis", 1)
    return x.reshape(int(np.prod(x.shape[:axis])), -1)


@op("Transpose")
def transpose(a, x):
    return x.permute(a.get("perm", list(reversed(range(x.ndim)))))


@op("Unsqueeze")
def unsqueeze(a, x, axes=None):
    axes = numbers(axes) if axes is not None else a["axes"]
    rank = x.ndim + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


@op("Squeeze")
def squeeze(a, x, axes=None):
    chosen = axes_of(a, x, axes) if axes is not None or "axes" in a else [i for i, n in enumerate(x.shape) if n == 1]
    return x.reshape([n for i, n in enumerate(x.shape) if i not in chosen])


@op("Concat")
def concat(a, *x):
    return torch.cat(x, a["axis"])


@op("Expand")
def expand(a, x, shape):
    return x.expand(torch.broadcast_shapes(x.shape, numbers(shape)))


@op("Split")
def split(a, x, sizes=None):
    axis, parts = a.get("axis", 0), a["outputs"]
    sizes = numbers(sizes) if sizes is not None else a.get("split", -(-x.shape[axis] // parts))
    return list(torch.split(x, sizes, axis))


@op("Gather")
def gather(a, x, indices):
    axis = a.get("axis", 0) % x.ndim
    indices = torch.where(indices < 0, indices + x.shape[axis], indices)
    return torch.index_select(x, axis, indices.flatten()).reshape([*x.shape[:axis], *indices.shape, *x.shape[axis + 1:]])


@op("Slice")
def slice_of(a, x, starts=None, ends=None, axes=None, steps=None):
    starts, ends = a.get("starts") or numbers(starts), a.get("ends") or numbers(ends)
    axes = numbers(axes) if axes is not None else a.get("axes", list(range(len(starts))))
    steps = numbers(steps) if steps is not None else [1] * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps):
        kept = range(x.shape[axis])[slice(start, end if end > -2**62 else None, step)]
        x = x.index_select(axis, torch.tensor(kept, dtype=torch.int64))
    return x


@op("Pad")
def pad(a, x, pads=None, value=None, axes=None):
    pads = numbers(pads) if pads is not None else a["pads"]
    axes = [axis % x.ndim for axis in numbers(axes)] if axes is not None else list(range(x.ndim))
    pairs = [(0, 0)] * x.ndim
    for i, axis in enumerate(axes):
        pairs[axis] = (pads[i], pads[i + len(axes)])
    mode = a.get("mode", "constant")
    if mode == "constant":
        return padded(x, pairs, value.item() if value is not None else a.get("value", 0.0))
    return torch.from_numpy(np.pad(x.numpy(), pairs, {"reflect": "reflect", "edge": "edge", "wrap": "wrap"}[mode]))


@op("Resize")
def resize(a, x, roi=None, scales=None, sizes=None):
    given = scales is not None and scales.numel() > 0
    factors = numbers(scales) if given else [n / m for n, m in zip(numbers(sizes), x.shape)]
    if a.get("mode", "nearest") != "nearest" or any(f != int(f) for f in factors) or a.get("coordinate_transformation_mode") == "align_corners":
        raise NotImplementedError("Resize other than nearest by whole factors")
    for axis, factor in enumerate(factors):
        x = x.repeat_interleave(int(factor), axis)
    return x


# ---- recurrence and branches ----

@op("LSTM")
def lstm(a, x, w, r, b=None, lengths=None, h=None, c=None, peepholes=None):
    hidden, directions = a["hidden_size"], w.shape[0]
    if directions != 1 or a.get("direction", "forward") != "forward" or lengths is not None or peepholes is not None or a.get("layout") or "activations" in a:
        raise NotImplementedError("LSTM other than forward, with its default activations")
    order = [0, 2, 3, 1]  # ONNX's gates i, o, f, c as PyTorch's i, f, c, o

    def gates(m):
        return torch.cat([m.reshape(4, hidden, -1)[i] for i in order]) if m.ndim == 2 else torch.cat([m.reshape(4, hidden)[i] for i in order])
    cell = torch.nn.LSTM(x.shape[2], hidden)
    b = torch.zeros(1, 8 * hidden) if b is None else b
    with torch.no_grad():
        for to, source in ((cell.weight_ih_l0, w[0]), (cell.weight_hh_l0, r[0]), (cell.bias_ih_l0, b[0][:4 * hidden]), (cell.bias_hh_l0, b[0][4 * hidden:])):
            to.copy_(gates(source))
    start = torch.zeros(1, x.shape[1], hidden)
    y, (last, state) = cell(x, (start if h is None else h, start if c is None else c))
    return [y.unsqueeze(1), last, state]


# ---- graphs ----

def attribute(attr):
    value = onnx.helper.get_attribute_value(attr)
    if isinstance(value, bytes):
        return value.decode()
    return torch.from_numpy(np.array(numpy_helper.to_array(value))) if isinstance(value, onnx.TensorProto) else value


class Graph:
    """A graph with its constants read once."""

    def __init__(self, graph, opset):
        self.constants = {t.name: torch.from_numpy(np.array(numpy_helper.to_array(t))) for t in graph.initializer}
        self.outputs = [o.name for o in graph.output]
        self.nodes = []
        for node in graph.node:
            attributes = {a.name: attribute(a) for a in node.attribute}
            attributes = {k: Graph(v, opset) if isinstance(v, onnx.GraphProto) else v for k, v in attributes.items()}
            if node.domain not in ("", "ai.onnx") or (node.op_type not in OPS and node.op_type != "If"):
                sys.exit(f"pytorch.py: no function for {node.domain or 'ai.onnx'}:{node.op_type}, node \"{node.name}\"")
            self.nodes.append((node, {**attributes, "operator": node.op_type, "opset": opset, "outputs": len(node.output)}))

    def run(self, given):
        values = {**self.constants, **given, "": None}
        for node, attributes in self.nodes:
            inputs = [values[name] for name in node.input]
            if node.op_type == "If":
                results = attributes["then_branch" if inputs[0].item() else "else_branch"].run(values)
            else:
                try:
                    results = OPS[node.op_type](attributes, *inputs)
                except Exception as error:
                    sys.exit(f"pytorch.py: node \"{node.name or node.output[0]}\" ({node.op_type}): {error}")
            values.update(zip(node.output, results if isinstance(results, list) else [results]))
        return [values[name] for name in self.outputs]


def main():
    parser = argparse.ArgumentParser(description="Runs an ONNX model with PyTorch.")
    parser.add_argument("model")
    parser.add_argument("inputs")
    parser.add_argument("outputs")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    begin = time.perf_counter()
    model = onnx.load(options.model)
    graph = Graph(model.graph, max((o.version for o in model.opset_import if o.domain in ("", "ai.onnx")), default=0))
    inputs = {name: torch.from_numpy(np.array(array)) for name, array in np.load(options.inputs).items()}
    with torch.inference_mode():
        results = graph.run(inputs)
        first = time.perf_counter() - begin
        times = []
        for _ in range(options.repeat):
            start = time.perf_counter()
            graph.run(inputs)
            times.append(time.perf_counter() - start)
    np.savez(options.outputs, **{name: r.numpy() for name, r in zip(graph.outputs, results)})
    if times:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(json.dumps({"first_ms": first * 1e3, "median_ms": sorted(times)[len(times) // 2] * 1e3, "peak_mb": peak * 1024e-6}))


main()
