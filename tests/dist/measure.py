#!/usr/bin/env python3
"""Measures what docs/distributed.md says of a machine, and prints it as tables of that page:

    tests/dist/measure.py build/release/tools/planck/planck

- allreduce: the ordered all-reduce against MPI_Allreduce on the same bytes and workers
- exposed: the demo on two workers, how long they wait for each other and for bytes (measure_scaling.py has more of them)
- hashes: the demo on 1, 2, 3, 4, 8, 16 workers, on the CPU, on a GPU that they share, on both

Other programs only ever add to a time: of several tries the best of each side counts, ours and MPI's, and what misses
its limit is tried again. Every worker has CPUs of its own, which are neighbours, so that one worker has of a core what
eight have. The end is a table of limits; --hold makes a missed one an error.

About three minutes on 16 cores with a GPU; --full trains the demo to its end (the README's hash) as well. A part that fails
says so and the next begins; the exit status is 1 where a hash differs or a part failed."""

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
RATIO = {2: 1.15, 4: 1.15, 8: 1.15, 3: 1.3, 5: 1.3, 6: 1.3}  # to MPI_Allreduce at most, from 1 MiB on
EXPOSED = 10  # per cent of a step of 2 workers at most


def say(*text):
    print(*text, flush=True)


# The CPUs of this process, those of one core side by side.
def cpus():
    def place(cpu):
        folder = f"/sys/devices/system/cpu/cpu{cpu}/topology/"
        try:
            return [int(open(folder + name).read()) for name in ("physical_package_id", "core_id")] + [cpu]
        except (OSError, ValueError):
            return [0, 0, cpu]
    return sorted(os.sched_getaffinity(0), key=place)


class Measure:
    def __init__(self, arguments, folder):
        self.a, self.folder, self.failed, self.hash, self.runs = arguments, folder, [], {}, 0
        self.cpus, self.limits = cpus(), []
        self.cores = len(self.cpus)
        self.each = max(1, self.cores // 8)  # of a worker that is timed

    # Every worker may use all cores: those that share one must not wait for each other by spinning.
    def mpirun(self, count, spin=False):
        idle = [] if spin and count <= self.cores else ["--mca", "mpi_yield_when_idle", "1"]
        return [self.a.mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *idle]

    # In front of a program of `count` workers that are timed: each keeps to its own CPUs.
    def bound(self, count):
        if count * self.each > self.cores or not shutil.which("taskset"):
            return []
        sets = [",".join(str(c) for c in self.cpus[i * self.each:(i + 1) * self.each]) for i in range(count)]
        return ["sh", "-c", f'set -- $OMPI_COMM_WORLD_LOCAL_RANK "$@"; own=$1; shift; set -f; '
                f'cpus=$(echo "{" ".join(sets)}" | cut -d" " -f$((own + 1))); exec taskset -c "$cpus" "$@"', "bound"]

    def limit(self, what, measured, limit, held):
        self.limits.append((what, measured, limit, held))

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
            command += [":"] * (i > 0) + ["-np", str(n), *(self.bound(count) if spin else []), self.a.planck, "demo", "--out", out,
                                          *options, *own]
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
            for n in COUNTS:
                self.compare("short", f"{n} sharing the GPU", [(n, [*gpu, "--threads", "1"])], *SHORT)
            self.compare("short", "3 sharing the GPU, sums in its memory", [(3, [*gpu, "--sums", "device"])], *SHORT)
            self.compare("short", "1 with NCCL", [(1, [*gpu, "--sums", "nccl"])], *SHORT)
            self.compare("short", "1 GPU and 3 CPU", [(1, gpu), (3, [])], *SHORT)
            self.compare("short", "8 GPU and 8 CPU", [(8, [*gpu, "--threads", "1"]), (8, ["--threads", "1"])], *SHORT)
            self.compare("short", "2 CPU, 1 GPU, 1 GPU with sums in its memory",
                         [(2, []), (1, gpu), (1, [*gpu, "--sums", "device"])], *SHORT)
        if self.a.full:
            say("\nTo the end (the README's):\n\n| workers | sha256 | the same | seconds |\n|---|---|---|---|")
            for n in (1, 2, 3, 4, 8):
                self.compare("full", f"{n} on the CPU, to the end", [(n, [])])
            if self.a.cuda:
                self.compare("full", "4 sharing the GPU, to the end", [(4, ["--device", "cuda"])])
            say(f"\nsha256 to the end: {self.hash.get('full')}")

    # By bytes: what `planck allreduce` says.
    def timed_sums(self, n, sizes):
        o = json.loads(self.run([*self.mpirun(n, spin=True), "-np", str(n), *self.bound(n), self.a.planck, "allreduce", "--bytes",
                                 ",".join(map(str, sizes)), "--min-time", str(self.a.min_time), "--json"]))
        return o, {row["bytes"]: row for row in o["rows"]}

    def all_reduce(self):
        say("\n## Ordered all-reduce against MPI_Allreduce\n")
        say("| workers | α, µs | β, GB/s | γ, GB/s | bytes | ordered, ms | MPI, ms | ratio | limit | model, ms | tries |")
        say("|---|---|---|---|---|---|---|---|---|---|---|")
        sizes = (64 * KIB, MIB, 4 * MIB, 25 * MIB)

        def one(n):
            o, rows = self.timed_sums(n, sizes)
            tries = dict.fromkeys(sizes, 1)

            def missed(size):
                return size >= MIB and rows[size]["ordered_seconds"] > RATIO[n] * rows[size]["mpi_seconds"]
            for again in range(2, self.a.tries + 1):
                late = [size for size in sizes if missed(size)]
                if not late:
                    break
                for size, row in self.timed_sums(n, late)[1].items():
                    tries[size] = again
                    for key in ("ordered_seconds", "mpi_seconds", "predicted_seconds"):
                        rows[size][key] = min(rows[size][key], row[key])
            ratio = {size: rows[size]["ordered_seconds"] / rows[size]["mpi_seconds"] for size in sizes}
            for i, size in enumerate(sizes):
                r = rows[size]
                costs = (f"{o['latency_seconds'] * 1e6:.2f} | {1e-9 / max(o['seconds_per_byte'], 1e-15):.2f} | "
                         f"{1e-9 / o['add_seconds_per_byte']:.2f}") if i == 0 else " | | "
                say(f"| {n if i == 0 else ''} | {costs} | {size} | {r['ordered_seconds'] * 1e3:.3f} | "
                    f"{r['mpi_seconds'] * 1e3:.3f} | {ratio[size]:.2f} | {RATIO[n] if size >= MIB else ''} | "
                    f"{r['predicted_seconds'] * 1e3:.3f} | {tries[size]} |")
            worst = max(ratio[size] for size in sizes if size >= MIB)
            self.limit(f"all-reduce on {n}, from 1 MiB on, times MPI's", f"{worst:.2f}", f"≤ {RATIO[n]}", worst <= RATIO[n])
        for n in sorted(RATIO):
            if n > max(2, self.cores):
                say(f"| {n} | not measured: {self.cores} cores | | | | | | | | | |")
                continue
            self.attempt(f"all-reduce on {n}", lambda n=n: one(n))

    # The demo as it is, a batch of 64 on two workers.
    def exposed(self):
        say("\n## Exposed communication\n")
        if self.cores < 2:
            return say("Not measured: one core")
        self.attempt("exposed communication", self.exposed_on_two)

    def exposed_on_two(self):
        tries = []
        for _ in range(self.a.tries):
            _, text, _ = self.demo([(2, [])], "--epochs", "10", "--qat-epochs", "1", "--threads", str(self.each), spin=True)
            speed, waiting, alone = re.search(r"float training: (\d+) images/s on 2 workers, ([0-9.]+) % [^,]*, ([0-9.]+) %", text).groups()
            say(f"{speed} pictures/s, {waiting} % of the time waiting, {alone} % for bytes alone")
            tries.append(float(alone))
        self.limit("exposed communication at 2 workers, of a step", f"{min(tries)} %", f"≤ {EXPOSED} %", min(tries) <= EXPOSED)

    def say_limits(self):
        if self.limits:
            say("\n## Limits\n\n| what | measured | limit | held |\n|---|---|---|---|")
        for what, measured, limit, held in self.limits:
            say(f"| {what} | {measured} | {limit} | {'yes' if held else 'NO'} |")
            if self.a.hold and not held:
                self.failed.append(what)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planck", help="the program")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--parts", default="allreduce,exposed,hashes", help="in this order")
    parser.add_argument("--cuda", choices=("auto", "yes", "no"), default="auto")
    parser.add_argument("--full", action="store_true", help="the demo to its end, too")
    parser.add_argument("--hold", action="store_true", help="a missed limit is an error")
    parser.add_argument("--tries", type=int, default=3, help="of what is timed")
    parser.add_argument("--min-time", type=float, default=0.12, help="seconds for a row of the all-reduce")
    parser.add_argument("--part-seconds", type=float, default=30, help="the longest for one command; --full: ten times")
    parser.add_argument("--seconds", type=float, default=200, help="for everything; --full has ten times as many")
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
            {"allreduce": m.all_reduce, "exposed": m.exposed, "hashes": m.hashes}[part]()
        m.say_limits()
    say(f"\n{time.time() - a.began:.0f} seconds; " + (f"FAILED: {', '.join(m.failed)}" if m.failed else "all parts done"))
    sys.exit(1 if m.failed else 0)


if __name__ == "__main__":
    main()
