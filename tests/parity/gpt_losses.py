#!/usr/bin/env python3
"""Losses of examples/07_gpt step by step, beside PyTorch's from the same weights on the same batches.

    cmake --build build/release --target gpt_steps
    tests/parity/gpt_losses.py build/release/tests/gpt_steps LICENSE [--preset 10m --length 512 --batch 32 --device cuda]
    tests/parity/gpt_losses.py build/release/tests/gpt_steps LICENSE --dtype bf16

Needs PyTorch 2 (tests/cli/install_clients torch; PYTHONPATH=build/clients), and skips itself without, with 77. f32 must stay
within the bounds below: rounding differs from the first step on, and training amplifies it. PyTorch's bf16 is autocast with f32
weights, Planck's has 16-bit weights with f32 masters: two curves, of which the means over the last 20 steps must be near.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import torch
    import gpt_torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

# Of f32, up to so many steps: the largest difference of losses.
BOUNDS = ((20, 1e-5), (100, 1e-4), (200, 1e-3))
CURVES = 0.05  # of bf16: the difference of means over the last 20 steps


def compared(gpt_steps, a, timeout=None):
    """Losses of both, and how far apart they are: (steps, largest difference, bound) …"""
    with tempfile.TemporaryDirectory() as folder:
        start = str(pathlib.Path(folder) / "start.safetensors")
        options = ["--preset", a.preset, "--batch", a.batch, "--length", a.length, "--steps", a.steps, "--threads", a.threads,
                   "--device", a.device, "--dtype", a.dtype, "--start", start]
        ours = json.loads(subprocess.run([gpt_steps, a.text, *map(str, options)], check=True, capture_output=True, text=True,
                                         timeout=timeout).stdout)["losses"]
        torch.set_num_threads(a.threads)
        run = gpt_torch.Training(a.text, a.preset, a.batch, a.length, a.steps, a.device, a.dtype == "bf16", start=start)
        theirs = torch.stack([run.step(i) for i in range(a.steps)]).tolist()
    apart = [abs(x - y) for x, y in zip(ours, theirs)]
    if a.dtype == "f32":
        found = [(until, max(apart[:until]), bound) for until, bound in BOUNDS if until <= a.steps]
    else:
        last = min(20, a.steps)
        found = [(a.steps, abs(sum(ours[-last:]) - sum(theirs[-last:])) / last, CURVES)]
    return ours, theirs, apart, found


def parser():
    p = gpt_torch.parser()
    p.description = __doc__
    p.add_argument("--dtype", default="f32", choices=("f32", "bf16"))
    p.add_argument("--json", action="store_true")
    p.set_defaults(steps=200, batch=16)
    return p


def main():
    gpt_steps, rest = sys.argv[1] if len(sys.argv) > 1 else "-h", sys.argv[2:]
    a = parser().parse_args(["-h"] if gpt_steps.startswith("-") else rest)
    ours, theirs, apart, found = compared(gpt_steps, a)
    if a.json:
        json.dump({"planck": ours, "torch": theirs, "version": torch.__version__, "dtype": a.dtype,
                   "apart": [{"steps": n, "is": d, "bound": b} for n, d, b in found]}, sys.stdout)
        print()
    else:
        print(f"{a.preset} {a.dtype}, batches of {a.batch} x {a.length}, {a.device}; PyTorch {torch.__version__}")
        print("  step    Planck   PyTorch      apart")
        for i in sorted({0, 1, 4, 9, 19, 49, 99, 149, a.steps - 1} & set(range(a.steps))):
            print(f"{i + 1:6d}  {ours[i]:8.5f}  {theirs[i]:8.5f}  {apart[i]:9.2e}")
        for n, d, b in found:
            what = f"up to step {n}: at most" if a.dtype == "f32" else "means over the last 20 steps:"
            print(f"{what} {d:.2e} apart, bound {b:.0e}{'' if d <= b else '  BEYOND'}")
    sys.exit(any(not d <= b for _, d, b in found))


if __name__ == "__main__":
    main()
