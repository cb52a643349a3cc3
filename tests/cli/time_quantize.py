#!/usr/bin/env python3
"""How long `planck quantize` takes against `cp` of as many bytes as it reads and writes: half of them each.

  tests/cli/time_quantize.py build/release/tools/planck/planck [FOLDER]

A checkpoint of 402 MB in bf16, twelve weights of 4096 × 4096; the best of five rounds, in which all ways take turns, with
files in FOLDER (/dev/shm unless given). Needs a machine with nothing else to do, or `chrt -f 1` before it where others cannot be
kept away. "CPU" is the processor time of all threads. Not a test: times are for people."""

import array
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

SIDE, TENSORS, ROUNDS = 4096, 12, 5
WAYS = {
    "s8 per channel": [],
    "s8 per tensor": ["--scheme", "per-tensor"],
    "s4 per group": ["--dtype", "s4", "--scheme", "per-group"],
    "compressed-tensors s4": ["--format", "compressed-tensors", "--dtype", "s4", "--scheme", "per-group"],
    "gguf q8_0": ["--format", "gguf"],
    **{f"gguf {dtype}": ["--format", "gguf", "--dtype", dtype] for dtype in ("q4_0", "q4_1", "q5_0", "q5_1", "q4_k", "q6_k")},
}
SEARCHED = ["s8 per channel", "s8 per tensor", "s4 per group"]  # also with --method mse


def write_checkpoint(path):
    rng = random.Random(1)
    values = array.array("f", (rng.gauss(0, 1) for _ in range(1 << 20)))
    block = array.array("H", array.array("H", values.tobytes())[1::2]).tobytes()  # the upper halves: bf16
    size = SIDE * SIDE * 2
    header = json.dumps({f"layers.{i}.weight": {"dtype": "BF16", "shape": [SIDE, SIDE], "data_offsets": [i * size, (i + 1) * size]}
                         for i in range(TENSORS)}).encode()
    header += b" " * (-len(header) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(header)) + header)
        for _ in range(TENSORS * size // len(block)):
            f.write(block)


def bytes_of(path):
    return os.path.getsize(path) if os.path.isfile(path) else sum(e.stat().st_size for e in os.scandir(path))


def timed(command):
    """Seconds, those of the processor, and megabytes of memory at most."""
    code = ("import resource, subprocess, sys, time; b = time.monotonic(); "
            "subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); e = time.monotonic(); "
            "u = resource.getrusage(resource.RUSAGE_CHILDREN); print(e - b, u.ru_utime + u.ru_stime, u.ru_maxrss)")
    seconds, busy, peak = subprocess.run([sys.executable, "-c", code, *command], check=True, capture_output=True, text=True).stdout.split()
    return float(seconds), float(busy), int(peak) // 1024


def main():
    planck, place = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "/dev/shm"
    with tempfile.TemporaryDirectory(dir=place) as folder:
        source, out, part = (os.path.join(folder, name) for name in ("in", "out", "part"))
        write_checkpoint(source)
        ways = {**WAYS, **{name + ", mse": WAYS[name] + ["--method", "mse"] for name in SEARCHED}}
        best, copied, used, peaks = {}, {}, {}, {}
        for _ in range(ROUNDS):
            for name, options in ways.items():
                subprocess.run(["rm", "-rf", out], check=True)
                seconds, busy, peak = timed([planck, "quantize", source, "-o", out, *options])
                best[name], used[name] = min(best.get(name, seconds), seconds), min(used.get(name, busy), busy)
                peaks[name] = max(peaks.get(name, 0), peak)
                half = (bytes_of(source) + bytes_of(out)) // 2
                subprocess.run(["rm", "-rf", out], check=True)
                with open(source, "rb") as f, open(part, "wb") as g:
                    os.sendfile(g.fileno(), f.fileno(), 0, half)
                seconds = timed(["cp", part, out])[0]
                copied[name] = min(copied.get(name, seconds), seconds)
        print(f"load {os.getloadavg()[0]:.1f}\n| way | seconds | CPU | cp | ratio | memory |\n|---|---|---|---|---|---|")
        for name in ways:
            line = f"| {name} | {best[name]:.2f} | {used[name]:.2f} | {copied[name]:.2f} | {best[name] / copied[name]:.2f}"
            if name.endswith(", mse"):
                line += f", {best[name] / best[name[:-5]]:.1f} of rtn"
            print(line + f" | {peaks[name]} MB |")


if __name__ == "__main__":
    main()
