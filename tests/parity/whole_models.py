#!/usr/bin/env python3
"""Whole models on a GPU beside PyTorch, in one run of two minutes: steps of examples/07_gpt and their memory, the optimizer's
step over many tensors, the demo's training, and losses from the same weights.

    cmake --build build/release --target gpt_steps optim_bench planck_cli
    tests/parity/whole_models.py [--gpt-steps PATH] [--optim-bench PATH] [--planck PATH] [--seconds 150] [--compile tiny,10m]
                                 [--sections gpt,optim,demo,torch,losses,hash] [--json FILE] [--markdown FILE]

Needs PyTorch 2 on the same GPU. The text is made of this project's sources. What takes longer than --seconds is left out, and
named; what fails is a row that says how, and the exit status is 1. Every number is the median of several groups of steps, the
device waited for at the end of each; PyTorch's data, weights and optimizer are those of gpt_torch.py.
"""
import argparse
import gc
import json
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import gpt_losses
    import gpt_torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
SHAPES = {"tiny": (64, 128), "10m": (32, 512), "124m": (8, 1024)}  # batch and length
# name, preset, options of gpt_steps, steps, of which so many between two waits
PLANCK = (
    ("tiny bf16", "tiny", ("--dtype", "bf16"), 240, 20),
    ("tiny f32", "tiny", (), 120, 20),
    ("10m bf16", "10m", ("--dtype", "bf16"), 100, 10),
    ("124m bf16", "124m", ("--dtype", "bf16"), 50, 5),
    ("124m f32 exact", "124m", ("--math", "exact"), 8, 2),
)
TORCH = (  # name, preset, AMP, compiled, steps, between two waits
    ("tiny f32", "tiny", False, False, 80, 10),
    ("tiny bf16", "tiny", True, False, 80, 10),
    ("10m bf16", "10m", True, False, 50, 5),
    ("124m bf16", "124m", True, False, 30, 3),
    ("124m f32 exact", "124m", False, False, 12, 2),
)
# name, which of PyTorch's steps it is held against, at least so many times as fast, and so many thousand tokens a second
WANTED = {"tiny bf16": 2.0, "tiny f32": 2.0, "10m bf16": 1.0, "124m bf16": 1.0, "124m f32 exact": 2.0}
LEAST = {"10m bf16": 930, "124m bf16": 295, "124m f32 exact": 110}


class Table:
    def __init__(self, a):
        self.a, self.begin, self.rows, self.curves = a, time.monotonic(), [], {}

    def left(self):
        return self.a.seconds - (time.monotonic() - self.begin)

    def add(self, what, planck, torch_=None, unit="", wanted="", good=None):
        self.rows.append({"what": what, "planck": planck, "torch": torch_, "unit": unit, "wanted": wanted, "good": good})
        self.write()
        print(f"{time.monotonic() - self.begin:6.1f} s  {self.line(self.rows[-1])}", flush=True)

    def line(self, r):
        number = lambda v: "–" if v is None else v if isinstance(v, str) else f"{v:.4g}" if abs(v) < 1000 else f"{v:,.0f}"
        good = {None: "", True: "yes", False: "**no**"}[r["good"]]
        return f"| {r['what']} | {number(r['planck'])} | {number(r['torch'])} | {r['unit']} | {r['wanted']} | {good} |"

    def markdown(self):
        lines = [f"{torch.cuda.get_device_name() if torch.cuda.is_available() else 'CPU'}, PyTorch {torch.__version__}", "",
                 "| what | Planck | PyTorch | unit | wanted | holds |", "|---|---|---|---|---|---|"]
        lines += [self.line(r) for r in self.rows]
        for name, (ours, theirs) in self.curves.items():
            at = sorted({0, *range(19, len(ours), 20), len(ours) - 1})
            lines += ["", f"Losses, {name}:", "", "| step | " + " | ".join(str(i + 1) for i in at) + " |",
                      "|---" * (len(at) + 1) + "|", "| Planck | " + " | ".join(f"{ours[i]:.4f}" for i in at) + " |",
                      "| PyTorch | " + " | ".join(f"{theirs[i]:.4f}" for i in at) + " |"]
        return "\n".join(lines) + "\n"

    def write(self):
        if self.a.json:
            pathlib.Path(self.a.json).write_text(json.dumps({"rows": self.rows, "curves": self.curves, "torch": torch.__version__,
                                                             "seconds": time.monotonic() - self.begin}, indent=1))
        if self.a.markdown:
            pathlib.Path(self.a.markdown).write_text(self.markdown())

    def attempt(self, what, needs, f):
        """f(), unless there is less time left than it needs; what goes wrong is a row."""
        if self.left() < needs:
            return self.add(what, "left out", wanted=f"{needs} s", unit="no time")
        try:
            return f()
        except subprocess.CalledProcessError as e:
            self.add(what, "failed", unit=(e.stderr or e.stdout or "").strip()[-200:].replace("\n", " "), good=False)
        except Exception as e:  # one row less, not the table
            self.add(what, "failed", unit=f"{type(e).__name__}: {e}"[:200].replace("\n", " "), good=False)
        return None

    def run(self, command, seconds=90):
        return subprocess.run([str(c) for c in command], check=True, capture_output=True, text=True, cwd=ROOT,
                              timeout=max(1.0, min(seconds, self.left() + 30))).stdout


def text_of_sources(folder):
    path = pathlib.Path(folder) / "text"
    files = sorted([*ROOT.glob("docs/**/*.md"), *ROOT.glob("planck/**/*.h"), *ROOT.glob("planck/**/*.cpp")])
    path.write_bytes(b"".join(f.read_bytes() for f in files)[:2_000_000])
    return path


def planck_steps(t, text):
    found = {}
    for name, preset, options, steps, every in PLANCK:
        batch, length = SHAPES[preset]

        def one():
            out = json.loads(t.run([t.a.gpt_steps, text, "--preset", preset, "--batch", batch, "--length", length, "--steps",
                                    steps, "--wait-every", every, "--device", t.a.device, *options]))
            groups = out["milliseconds"][1:] or out["milliseconds"]  # the first has what happens once
            ms = statistics.median(groups)
            found[name] = (out["tokens"] / ms, out["allocator_peak_mib"])
            print(f"{time.monotonic() - t.begin:6.1f} s  Planck, {name}: {out['tokens'] / ms:,.0f} k tokens/s, groups "
                  f"{min(groups):.3f} to {max(groups):.3f} ms a step", flush=True)

        t.attempt(f"GPT {name}", 8, one)
    return found


def torch_steps(t, text, rows):
    found = {}
    for name, preset, amp, compiled, steps, every in rows:
        batch, length = SHAPES[preset]

        def one():
            free()
            torch.cuda.reset_peak_memory_stats()
            run = gpt_torch.Training(str(text), preset, batch, length, steps, t.a.device, amp, compiled)
            times = []
            for first in range(0, steps, every):
                torch.cuda.synchronize()
                begin = time.perf_counter()
                for i in range(first, min(steps, first + every)):
                    run.step(i)
                torch.cuda.synchronize()
                times.append((time.perf_counter() - begin) * 1e3 / every)
            ms = statistics.median(times[1:])
            found[name] = (batch * length / ms, torch.cuda.max_memory_allocated() / 2**20)
            what = "compiled, " if compiled else ""
            print(f"{time.monotonic() - t.begin:6.1f} s  PyTorch, {what}{name}: {found[name][0]:,.0f} k tokens/s", flush=True)

        t.attempt(f"PyTorch, GPT {name}", 40 if compiled else 6, one)
    return found


def free():
    gc.collect()
    torch.cuda.empty_cache()


def add_steps(t, ours, theirs, compiled):
    for name, *_ in PLANCK:
        if name not in ours:
            continue
        preset = name.split()[0]
        peers = {n: v for n, v in theirs.items() if n == name or (preset == "tiny" and n.startswith("tiny"))}
        peers |= {f"{n}, compiled": v for n, v in compiled.items() if n == name}
        best = max((v[0] for v in peers.values()), default=None)
        at_least = [f"≥ {WANTED[name]:g} × PyTorch's best"] + ([f"{LEAST[name]} k"] if name in LEAST else [])
        good = None if best is None else ours[name][0] >= WANTED[name] * best and ours[name][0] >= LEAST.get(name, 0)
        t.add(f"GPT {name}", ours[name][0], best, "k tokens/s", ", ".join(at_least), good)
    for name, (_, peak) in ours.items():
        if name in theirs:
            t.add(f"GPT {name}, peak of the allocator", peak, theirs[name][1], "MiB", "≤ 1.1 × PyTorch's",
                  peak <= 1.1 * theirs[name][1])


def median_ms(f, repeats=20, groups=5):
    times = []
    for _ in range(groups + 1):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(repeats):
            f()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) * 1e3 / repeats)
    return statistics.median(times[1:])


def optimizer(t):
    out = t.run([t.a.optim_bench, 124, 1 << 20, "f32", t.a.device])
    ours = {m[1]: float(m[2]) for m in re.finditer(r"^(\S.*?)\s+([\d.]+) ms", out, re.M)}
    free()
    tensors = [torch.randn(1 << 20, device=t.a.device, requires_grad=True) for _ in range(124)]
    for p in tensors:
        p.grad = torch.randn_like(p)
    adam = torch.optim.AdamW(tensors, lr=1e-3, weight_decay=0.01, fused=True)
    step, clip = median_ms(adam.step), median_ms(lambda: torch.nn.utils.clip_grad_norm_(tensors, 1.0))
    del tensors, adam
    free()
    t.add("AdamW, 124 tensors of 2^20 f32", ours["adamw"], step, "ms", "≤ 1.0 ms", ours["adamw"] <= 1.0)
    clipped = ours["adamw, clipped"] - ours["adamw"]
    t.add("norm and clip, same: norm and factor", ours["norm and factor"], clip, "ms", "≤ 0.35 ms",
          ours["norm and factor"] <= 0.35)
    t.add("norm and clip, same: a clipped step over a step", clipped, clip, "ms", "≤ 0.35 ms", clipped <= 0.35)


def demo(t, folder):
    out = pathlib.Path(folder) / "demo"
    begin = time.monotonic()
    found = json.loads(t.run([t.a.planck, "demo", "--device", t.a.device, "--json", "--out", out], 120))
    found = found.get("run", found) if isinstance(found, dict) else found
    rate = find(found, "images_per_second")
    t.add("digits demo, float training", rate, None, "images/s", "≥ 150,000", rate >= 150_000)
    sha = find(found, "sha256")
    t.add("digits demo, sha256 of all weights", sha[:16], None, "", t.a.demo_hash[:16], sha == t.a.demo_hash)
    t.add("digits demo, all of it", time.monotonic() - begin, None, "s")


def find(tree, name):
    """The first value of that name in nested objects."""
    if isinstance(tree, dict):
        if name in tree:
            return tree[name]
        tree = list(tree.values())
    for part in tree if isinstance(tree, list) else ():
        value = find(part, name) if isinstance(part, (dict, list)) else None
        if value is not None:
            return value
    return None


def losses(t, text, dtype):
    a = gpt_losses.parser().parse_args([str(text), "--preset", "10m", "--dtype", dtype, "--batch", str(t.a.loss_batch), "--length",
                                        "512", "--device", t.a.device])
    free()
    ours, theirs, _, found = gpt_losses.compared(t.a.gpt_steps, a, timeout=max(1.0, t.left() + 30))
    t.curves[f"GPT 10m, {dtype}, batches of {a.batch} x {a.length}"] = (ours, theirs)
    for until, is_, bound in found:
        what = f"largest difference up to step {until}" if dtype == "f32" else "difference of means, last 20 steps"
        t.add(f"losses of GPT 10m {dtype}: {what}", f"{is_:.2e}", None, "", f"≤ {bound:.0e}", is_ <= bound)


def hashes(t, text):
    for dtype in ("f32", "bf16"):
        options = [t.a.gpt_steps, text, "--preset", "tiny", "--dtype", dtype, "--batch", 4, "--length", 64, "--steps", 5]
        found = [json.loads(t.run([*options, "--device", d, "--threads", n, *more]))["sha256"]
                 for d, n, *more in (("cpu", 1), ("cpu", 4), (t.a.device, 1), (t.a.device, 1, "--unrecorded"))]
        t.add(f"GPT tiny {dtype}, 5 steps: sha256 on 1 thread, 4 threads, {t.a.device} recorded and unrecorded", found[2][:16], None,
              "", found[0][:16], len(set(found)) == 1)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    built = ROOT / "build/release"
    p.add_argument("--gpt-steps", default=built / "tests/gpt_steps")
    p.add_argument("--optim-bench", default=built / "tests/optim_bench")
    p.add_argument("--planck", default=built / "tools/planck/planck")
    p.add_argument("--demo-hash", default="4989e3e67b114063c71e9e6ae9a33b46c425b57e5a5fefaff18faee4774cd98b")
    p.add_argument("--device", default="cuda", choices=("cuda",))
    p.add_argument("--seconds", type=float, default=150)
    p.add_argument("--sections", default="gpt,optim,demo,torch,losses,hash")
    p.add_argument("--compile", default="", help="presets whose compiled steps are timed last, if there is time")
    p.add_argument("--loss-batch", type=int, default=8)
    p.add_argument("--json")
    p.add_argument("--markdown")
    a = p.parse_args()
    for name in ("gpt_steps", "optim_bench", "planck"):
        setattr(a, name, pathlib.Path(getattr(a, name)).resolve())
    t, sections = Table(a), a.sections.split(",")
    with tempfile.TemporaryDirectory() as folder:
        text, ours, theirs, compiled = text_of_sources(folder), {}, {}, {}
        if "gpt" in sections:
            ours = planck_steps(t, text)
        if "optim" in sections:
            t.attempt("AdamW and norm", 5, lambda: optimizer(t))
        if "demo" in sections:
            t.attempt("digits demo", 10, lambda: demo(t, folder))
        if "torch" in sections:
            theirs = torch_steps(t, text, TORCH)
        if a.compile:
            rows = [(n, q, amp, True, steps, every) for n, q, amp, _, steps, every in TORCH
                    if amp and q in a.compile.split(",")]
            compiled = torch_steps(t, text, rows)
        add_steps(t, ours, theirs, compiled)
        if "losses" in sections:
            t.attempt("losses of GPT 10m bf16", 12, lambda: losses(t, text, "bf16"))
            t.attempt("losses of GPT 10m f32", 20, lambda: losses(t, text, "f32"))
        if "hash" in sections:
            t.attempt("one hash", 10, lambda: hashes(t, text))
    t.write()
    print("\n" + t.markdown())
    sys.exit(any(r["good"] is False for r in t.rows))


if __name__ == "__main__":
    main()
