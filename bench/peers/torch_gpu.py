"""PyTorch on one GPU, the rows of bench/gpu.c: eager, and compiled for what fuses. Bursts of at least 20 ms between events,
medians of 5 rounds, operands in several copies that take turns. Usage: torch_gpu.py [--no-compile]"""
import statistics
import sys

import torch
import torch.nn.functional as F

NAMES = {torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16"}


def burst(functions, times):
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    for i in range(times):
        functions[i % len(functions)]()
    end.record()
    torch.cuda.synchronize()
    return start.elapsed_time(end) * 1e-3 / times


def row(what, kind, f, dtype, mnk, shapes, flops=0, bytes_=0):
    size = sum(torch.Size(s).numel() for s in shapes) * torch.finfo(dtype).bits // 8
    sets = min(int(200e6 / size) + 1, 16)
    data = [[torch.rand(s, device="cuda").sub_(0.5).to(dtype) for s in shapes] for _ in range(sets)]
    functions = [lambda o=o: f(*o) for o in data]
    times = sets
    burst(functions, 3 * sets)
    while burst(functions, times) * times < 0.02:
        times *= 2
    seconds = sorted(burst(functions, times) for _ in range(5))
    median = statistics.median(seconds)
    rate = (flops or bytes_) * 1e-9 / median
    unit = "GFLOP/s" if flops else "GB/s"
    m, n, k = mnk
    print(f"{what:10} {NAMES[dtype]:4} {m:5} {n:5} {k:5} {kind:7} {median * 1e6:10.1f} us ({seconds[0] * 1e6:.1f} to "
          f"{seconds[-1] * 1e6:.1f}) {rate:9.1f} {unit}, {times} a burst", flush=True)


def step():
    """One training step of the CNN at batch 128, eager and as a graph."""
    net = torch.nn.Sequential(torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU(),
                              torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(9216, 128), torch.nn.ReLU(),
                              torch.nn.Linear(128, 10)).cuda()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
    x, y = torch.rand(128, 1, 28, 28, device="cuda"), torch.randint(0, 10, (128,), device="cuda")

    def once():
        optimiser.zero_grad(set_to_none=True)
        F.cross_entropy(net(x), y).backward()
        optimiser.step()

    burst([once], 20)
    seconds = [burst([once], 50) for _ in range(5)]
    print(f"cnn step   f32    128     0     0 eager   {statistics.median(seconds) * 1e6:10.1f} us", flush=True)


def main():
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    print(f"torch {torch.__version__} on {torch.cuda.get_device_name()}")
    f32, f16, bf16 = torch.float32, torch.float16, torch.bfloat16
    for dtype, sizes in ((f32, (1024, 2048, 4096)), (f16, (2048, 4096, 8192)), (bf16, (2048, 4096, 8192))):
        for n in sizes:
            row("gemm", "eager", torch.matmul, dtype, (n, n, n), [(n, n), (n, n)], flops=2.0 * n**3)
    for dtype in (f16, f32):
        row("gemv", "eager", torch.matmul, dtype, (1, 4096, 4096), [(1, 4096), (4096, 4096)],
            bytes_=4096.0 * 4096 * torch.finfo(dtype).bits / 8)
    for dtype in (f16, f32):
        row("linear", "eager", F.linear, dtype, (1, 4096, 4096), [(1, 4096), (4096, 4096)],
            bytes_=4096.0 * 4096 * torch.finfo(dtype).bits / 8)
    for dtype in (f32, f16):
        row("conv3x3", "eager", lambda x, w: F.conv2d(x, w, padding=1), dtype, (32, 64, 56),
            [(32, 64, 56, 56), (64, 64, 3, 3)], flops=2.0 * 32 * 64 * 56 * 56 * 64 * 9)
    big, width = (8192, 4096), 4096
    kinds = [("eager", lambda f: f)] + ([] if "--no-compile" in sys.argv else [("compile", torch.compile)])
    for kind, wrap in kinds:
        for what, f, dtypes, operands, results, k in (
                ("x+1", lambda x: x + 1, (f32,), 1, 1, 0),
                ("gelu(xy+z)", lambda x, y, z: F.gelu(x * y + z), (f32, f16), 3, 1, 0),
                ("layernorm", lambda x: F.layer_norm(x, (width,)), (f32, f16), 1, 1, 0),
                ("softmax", lambda x: torch.softmax(x, 1), (f32, f16), 1, 1, 0),
                ("sum rows", lambda x: x.sum(1), (f32,), 1, 0, 0), ("sum cols", lambda x: x.sum(0), (f32,), 1, 0, 1),
                ("sum all", lambda x: x.sum(), (f32,), 1, 0, 0),
                ("transpose", lambda x: (-x).t().contiguous() if kind == "eager" else (-x.t()).contiguous(), (f32,), 1, 1, 0)):
            for dtype in dtypes:
                row(what, kind, wrap(f), dtype, (*big, k), [big] * operands,
                    bytes_=8192.0 * 4096 * torch.finfo(dtype).bits / 8 * (operands + results))
    x = torch.rand(2**26, device="cuda")
    y = torch.empty_like(x)
    seconds = statistics.median(burst([lambda: y.copy_(x)], 100) for _ in range(5))
    print(f"copy: {2 * 4 * 2**26 / seconds * 1e-9:.0f} GB/s")
    step()


main()
