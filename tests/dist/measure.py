#!/usr/bin/env python3
"""Measures what docs/distributed.md says of a machine, and prints it as tables of that page:

    tests/dist/measure.py build/release/tools/planck/planck

- hashes: the demo on 1, 2, 3, 4, 8, 16 workers, on the CPU, on a GPU that they share, on both
- allreduce: the ordered all-reduce against MPI_Allreduce on the same bytes and workers
- scaling: steps of the demo's model with a batch of 64 for each worker, two cores each, and how long they wait

About 90 seconds on 16 cores with a GPU; --full trains the demo to its end (the README's hash) as well. A part that fails
says so and the next begins; the exit status is 1 where a hash differs or a part failed. Limits are not held: machines
differ. Times mean something where nothing else runs and every worker has a core."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

SHORT = ["--epochs", "1", "--qat-epochs", "1"]
COUNTS = (1, 2, 3, 4, 8, 16)
KIB, MIB = 1 << 10, 1 << 20


def say(*text):
    print(*text, flush=True)


class Measure:
    def __init__(self, arguments, folder):
        self.a, self.folder, self.failed, self.hash, self.runs = arguments, folder, [], {}, 0
        self.cores = len(os.sched_getaffinity(0))

    # Every worker may use all cores: those that share one must not wait for each other by spinning.
    def mpirun(self, count, spin=False):
        idle = [] if spin and count <= self.cores else ["--mca", "mpi_yield_when_idle", "1"]
        return [self.a.mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *idle]

    def run(self, command):
        left = self.a.seconds - (time.time() - self.a.began)
        if left < 3:
            raise RuntimeError(f"no time left: {self.a.seconds} s are over")
        job = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            output, errors = job.communicate(timeout=min(left, 10 * self.a.part_seconds if self.a.full else
                                                         self.a.part_seconds))
        except subprocess.TimeoutExpired:
            job.terminate()  # mpirun ends its workers
            job.communicate(timeout=10)
            raise RuntimeError("it took too long") from None
        if job.returncode != 0:
            lines = (errors.strip() or output.strip() or "no message").splitlines()
            own = [line for line in lines if line.startswith("planck")]
            raise RuntimeError(f"exit status {job.returncode}: {(own or lines)[0][:300]}")
        return output

    def attempt(self, what, function):
        try:
            return function()
        except (RuntimeError, subprocess.TimeoutExpired, OSError, ValueError, KeyError) as error:
            self.failed.append(what)
            say(f"{what}: FAILED: {str(error)[:400]}")
            return None

    # What the demo prints, and its hash. `groups` are (workers, options).
    def demo(self, groups, *options, spin=False):
        self.runs += 1
        out = os.path.join(self.folder, f"run{self.runs}")
        count = sum(n for n, _ in groups)
        command = self.mpirun(count, spin)
        for i, (n, own) in enumerate(groups):
            command += [":"] * (i > 0) + ["-np", str(n), self.a.planck, "demo", "--out", out, *options, *own]
        began = time.time()
        text = self.run(command)
        found = re.findall(r"^weights sha256 ([0-9a-f]{64})$", text, re.M)
        if len(found) != 1:
            raise RuntimeError("no hash was printed")
        shutil.rmtree(out, ignore_errors=True)
        return found[0], text, time.time() - began

    def compare(self, key, name, groups, *options):
        def one():
            sha, _, seconds = self.demo(groups, *options)
            same = self.hash.setdefault(key, sha) == sha
            say(f"| {name} | {sha[:16]}… | {'yes' if same else 'NO'} | {seconds:.1f} |")
            if not same:
                self.failed.append(name)
        self.attempt(name, one)

    def hashes(self):
        say("\n## One hash\n\n| workers | sha256 | the same | seconds |\n|---|---|---|---|")
        for n in COUNTS:
            self.compare("short", f"{n} on the CPU", [(n, ["--threads", "1"])], *SHORT)
        if self.a.cuda:
            gpu = ["--device", "cuda"]
            for n in (1, 2, 4, 8):
                self.compare("short", f"{n} sharing the GPU", [(n, gpu)], *SHORT)
            self.compare("short", "3 sharing the GPU, sums in its memory", [(3, [*gpu, "--sums", "device"])], *SHORT)
            self.compare("short", "1 GPU and 3 CPU", [(1, gpu), (3, [])], *SHORT)
            self.compare("short", "2 CPU, 1 GPU, 1 GPU with sums in its memory",
                         [(2, []), (1, gpu), (1, [*gpu, "--sums", "device"])], *SHORT)
        if self.a.full:
            say("\nTo the end (the README's):\n\n| workers | sha256 | the same | seconds |\n|---|---|---|---|")
            for n in (1, 2, 3, 4, 8):
                self.compare("full", f"{n} on the CPU, to the end", [(n, [])])
            if self.a.cuda:
                self.compare("full", "4 sharing the GPU, to the end", [(4, ["--device", "cuda"])])
            say(f"\nsha256 to the end: {self.hash.get('full')}")

    def all_reduce(self):
        say("\n## Ordered all-reduce against MPI_Allreduce\n")
        say("| workers | α, µs | β, GB/s | γ, GB/s | bytes | ordered, ms | MPI, ms | ratio | model, ms |")
        say("|---|---|---|---|---|---|---|---|---|")
        sizes = ",".join(str(s) for s in (64 * KIB, MIB, 4 * MIB, 25 * MIB))

        def one(n):
            o = json.loads(self.run([*self.mpirun(n, spin=True), "-np", str(n), self.a.planck, "allreduce", "--bytes",
                                     sizes, "--min-time", str(self.a.min_time), "--json"]))
            for i, r in enumerate(o["rows"]):
                costs = (f"{o['latency_seconds'] * 1e6:.2f} | {1e-9 / max(o['seconds_per_byte'], 1e-15):.2f} | "
                         f"{1e-9 / o['add_seconds_per_byte']:.2f}") if i == 0 else " | | "
                say(f"| {n if i == 0 else ''} | {costs} | {r['bytes']} | {r['ordered_seconds'] * 1e3:.3f} | "
                    f"{r['mpi_seconds'] * 1e3:.3f} | {r['ratio']:.2f} | {r['predicted_seconds'] * 1e3:.3f} |")
        for n in (2, 3, 4, 5, 6, 8):
            if n > max(2, self.cores):
                say(f"| {n} | not measured: {self.cores} cores | | | | | | | |")
                continue
            self.attempt(f"all-reduce on {n}", lambda n=n: one(n))

    # 4,096 pictures to learn from: whole batches for 1, 2, 4 and 8 workers.
    def pictures(self):
        folder, count, side = os.path.join(self.folder, "pictures"), 5120, 8
        os.mkdir(folder)

        def npy(name, dtype, shape, data):
            header = str({"descr": dtype, "fortran_order": False, "shape": shape})
            header += " " * (-(len(header) + 11) % 64) + "\n"
            with open(os.path.join(folder, name), "wb") as f:
                f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode("latin1") + data)
        npy("images.npy", "|u1", (count, side, side), bytes((i * 2654435761 >> 7) % 256
                                                            for i in range(count * side * side)))
        npy("labels.npy", "<i8", (count,), b"".join((i % 10).to_bytes(8, "little") for i in range(count)))
        return folder

    def scaling(self):
        threads = max(1, self.cores // 8)
        say(f"\n## Weak scaling: the demo's model, 64 pictures for each worker and step, {threads} cores each\n")
        say("| workers | pictures/s | ms per step | efficiency | waiting | for bytes alone |\n|---|---|---|---|---|---|")
        data, alone = self.attempt("pictures", self.pictures), []
        if data is None:
            return

        def one(n):
            _, text, _ = self.demo([(n, [])], "--data", data, "--epochs", "5", "--qat-epochs", "1", "--batch", str(64 * n),
                                   "--threads", str(threads), spin=True)
            speed = float(re.search(r"float training: (\d+) images/s", text).group(1))
            waiting = re.search(r"([0-9.]+ %) of the time waiting for others, ([0-9.]+ %) for bytes alone", text)
            alone.append(speed)
            say(f"| {n} | {speed:.0f} | {64e3 * n / speed:.2f} | {speed / n / alone[0]:.2f} | "
                f"{' | '.join(waiting.groups() if waiting else '––')} |")
        for n in (1, 2, 4, 8):
            if n * threads > self.cores:
                say(f"| {n} | not measured: {self.cores} cores | | | | |")
            elif n == 1 or alone:
                self.attempt(f"scaling on {n}", lambda n=n: one(n))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planck", help="the program")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--parts", default="hashes,allreduce,scaling", help="in this order")
    parser.add_argument("--cuda", choices=("auto", "yes", "no"), default="auto")
    parser.add_argument("--full", action="store_true", help="the demo to its end, too")
    parser.add_argument("--min-time", type=float, default=0.12, help="seconds for a row of the all-reduce")
    parser.add_argument("--part-seconds", type=float, default=30, help="the longest for one command; --full: ten times")
    parser.add_argument("--seconds", type=float, default=100, help="for everything; --full has ten times as many")
    a = parser.parse_args()
    a.began, a.planck = time.time(), os.path.abspath(a.planck)
    if a.full:
        a.seconds *= 10
    listed = shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
    say(f"{len(os.sched_getaffinity(0))} cores; {(listed or '').strip().splitlines()[0] if listed else 'no GPU'}")
    a.cuda = a.cuda == "yes" or (a.cuda == "auto" and bool(listed))
    with tempfile.TemporaryDirectory(prefix="planck-measure-") as folder:
        m = Measure(a, folder)
        for part in a.parts.split(","):
            {"allreduce": m.all_reduce, "scaling": m.scaling, "hashes": m.hashes}[part]()
    say(f"\n{time.time() - a.began:.0f} seconds; " + (f"FAILED: {', '.join(m.failed)}" if m.failed else "all parts done"))
    sys.exit(1 if m.failed else 0)


if __name__ == "__main__":
    main()
