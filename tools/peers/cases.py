#!/usr/bin/python3
"""cases.py: the work of bench/peers by PyTorch, for bench/peers/pytorch.c, which says what lines it reads and prints.

Where PyTorch has several ways (channels last, oneDNN's own layout), the fastest of a short trial is taken."""
import ctypes
import os
import re
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch.utils import mkldnn


def values(which, shape):
    """bench_value of bench/peers/cases.c."""
    n = int(np.prod(shape))
    with np.errstate(over="ignore"):
        bits = np.arange(n, dtype=np.uint32) * np.uint32(2654435769) + np.uint32((which * 0x9E3779B1 + 12345) & 0xFFFFFFFF)
        bits ^= bits >> np.uint32(15)
        bits *= np.uint32(0x2C1B3C6D)
        bits ^= bits >> np.uint32(12)
    return torch.from_numpy(((bits >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24) - np.float32(0.5)).reshape(shape))


BENCH_UNSEEN = 4  # bench/peers/peers.h
written = []  # operands of the case that are written anew, by this thread, after so many computations


CORES = sorted(os.sched_getaffinity(0))


def set_threads(n):
    """PyTorch's own, and those of an OpenBLAS that it calls, which has its own count; on the cores that bench/peers/main.c keeps, too."""
    os.sched_setaffinity(0, CORES[:n])
    torch.set_num_threads(n)
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for path in set(re.findall(r"/\S*openblas\S*\.so\S*", maps.read())):
            library = ctypes.CDLL(path)
            if hasattr(library, "openblas_set_num_threads"):
                library.openblas_set_num_threads(n)


def digest(y):
    y = (y.to_dense() if y.is_mkldnn else y).detach().contiguous().float().numpy().astype(np.float64).ravel()
    if y.size == 1:
        return y[0]
    p = values(7, (y.size,)).numpy().astype(np.float64)
    return float(y @ p / np.sqrt((y @ y) * (p @ p)))


class Cnn(torch.nn.Sequential):
    def __init__(self):
        nn = torch.nn
        super().__init__(nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10))


def trainer(model, x):
    labels = torch.zeros(x.shape[0], dtype=torch.long)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss
    return step


def convolution(batch, inputs, outputs, side, kernel, stride, groups):
    x, w = values(0, (batch, inputs, side, side)), values(1, (outputs, inputs // groups, kernel, kernel))
    last = torch.channels_last
    xs, ws = x.to(memory_format=last), w.to(memory_format=last)
    written.extend([x, xs])
    ways = [lambda: F.conv2d(x, w, None, stride, kernel // 2, 1, groups), lambda: F.conv2d(xs, ws, None, stride, kernel // 2, 1, groups)]
    if torch.backends.mkldnn.is_available():
        layer = torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, 1, groups, bias=False).eval()
        layer.weight.data = w
        packed, xm = mkldnn.to_mkldnn(layer), x.to_mkldnn()
        ways.append(lambda: packed(xm))
    return ways


def of_image(kind, x, kernel, stride):
    pad = kernel // 2 if kernel % 2 else 0
    if kind == "pad":
        return [lambda: F.pad(x, (1, 1, 1, 1))]
    if kind == "nhwc":
        return [lambda: x.permute(0, 2, 3, 1).contiguous()]
    layouts = [x, x.to(memory_format=torch.channels_last)] + ([x.to_mkldnn()] if torch.backends.mkldnn.is_available() else [])
    if kind == "max_pool":
        return [lambda y=y: F.max_pool2d(y, kernel, stride, pad) for y in layouts]
    return [lambda y=y: F.avg_pool2d(y, kernel, stride, pad, count_include_pad=False) for y in layouts]


def ways_of(kind, m, n, k, constant, batch, inputs, outputs, side, kernel, stride, groups):
    x = values(0, (m, n)) if kind in ("layernorm", "softmax", "gelu", "transpose", "sum_rows", "sum_columns", "sum_all", "max_rows",
                                     "max_columns", "softmax_columns", "gather", "join") else None
    if kind == "gemm":
        a, b = values(0, (m, k)), values(1, (k, n))
        written.extend([a] if constant or m == 1 else [a, b])
        return [lambda: torch.mm(a, b)]
    if kind == "gemm_bf16":
        a, b = values(0, (m, k)).bfloat16(), values(1, (k, n)).bfloat16()
        written.append(a)
        turned = b.t().contiguous().t()
        return [lambda: torch.mm(a, b), lambda: torch.mm(a, turned)]
    if kind == "conv":
        return convolution(batch, inputs, outputs, side, kernel, stride, groups)
    if kind == "layernorm":
        return [lambda: F.layer_norm(x, (n,))]
    if kind == "softmax":
        return [lambda: F.softmax(x, 1)]
    if kind == "gelu":
        return [lambda: F.gelu(x)]
    if kind == "transpose":
        return [lambda: x.t().contiguous()]
    if kind == "sum_rows":
        return [lambda: x.sum(1)]
    if kind == "sum_columns":
        return [lambda: x.sum(0)]
    if kind == "sum_all":
        return [lambda: x.sum()]
    if kind == "max_rows":
        return [lambda: x.amax(1)]
    if kind == "max_columns":
        return [lambda: x.amax(0)]
    if kind == "softmax_columns":
        return [lambda: F.softmax(x, 0)]
    if kind == "gather":
        rows = torch.arange(m) * 2654435761 % m
        return [lambda: torch.index_select(x, 0, rows), lambda: x[rows]]
    if kind == "join":
        beside = values(1, (m, n))
        return [lambda: torch.cat((x, beside), 1)]
    if kind in ("pad", "nhwc", "max_pool", "average_pool"):
        return of_image(kind, values(0, (batch, inputs, side, side)), kernel, stride)
    if kind == "encoder":
        layer = torch.nn.TransformerEncoderLayer(n, k, 4 * n, 0.0, "gelu", batch_first=True).eval()
        sequence = values(0, (1, m, n))
        return [lambda: layer(sequence)]
    if kind == "lstm":
        cells = torch.nn.LSTM(n, n).eval()
        steps = values(0, (k, m, n))
        return [lambda: cells(steps)[0]]
    if kind in ("cnn", "train"):
        image = values(0, (m, 1, 28, 28))
        ways = []
        for layout in (torch.contiguous_format, torch.channels_last):
            model = Cnn().to(memory_format=layout)
            given = image.to(memory_format=layout)
            ways.append(trainer(model, given) if kind == "train" else lambda model=model, given=given: model(given))
        return ways
    raise ValueError("no such case: " + kind)


def seconds(way, n, clock=time.perf_counter):
    took = 0
    at_once = BENCH_UNSEEN if written else n
    for i in range(0, n, at_once):
        for operand in written:
            lines = np.ctypeslib.as_array((ctypes.c_uint8 * (operand.numel() * operand.element_size())).from_address(operand.data_ptr()))[::64]
            lines += 0
        begin = clock()
        for _ in range(i, min(n, i + at_once)):
            way()
        took += clock() - begin
    return took


def fastest(ways):
    for way in ways:
        seconds(way, 2)
    return min(ways, key=lambda way: min(seconds(way, 2) for _ in range(3))) if len(ways) > 1 else ways[0]


def main():
    print("torch", torch.__version__, torch.backends.cpu.get_cpu_capability() if hasattr(torch.backends, "cpu") else "", flush=True)
    way, kind = None, None
    for line in sys.stdin:
        words = line.split()
        if words[0] == "open":
            try:
                set_threads(int(words[1]))
                kind = words[2]
                numbers = [int(w) for w in words[3:]]
                with torch.set_grad_enabled(kind == "train"):
                    written.clear()
                    way = fastest(ways_of(kind, *numbers))
                    number = float("nan") if kind in ("train", "cnn", "encoder", "lstm") else digest(way())  # weights of its own
                print("ok", number, flush=True)
            except Exception as error:  # its message is the reason
                print("no", str(error).split("\n")[0], flush=True)
        elif words[0] == "run":
            with torch.inference_mode(kind != "train"):
                print(seconds(way, int(words[1]), time.process_time if words[2] == "cpu" else time.perf_counter), flush=True)
        else:
            way = None
            print("closed", flush=True)


main()
