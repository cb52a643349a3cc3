"""Weak scaling of the demo on this machine's cores: so many pictures for each worker, and in each of its steps, whatever their
number.

A worker of several has, at best, the speed of one that is alone: that is the ideal, and where a row's fraction of it begins. A
machine has less to give when all of its cores work, for cores may be halves of one and share their memory: so many programs
that do not know of each other, started at once, show its ceiling, and what a job has of that is what workers lose by waiting
for each other. Jobs are started as `mpirun --bind-to none` does it, with cores of their own (`--map-by slot:PE=THREADS`), and as
mpirun binds by itself.

The limits at the end, for each number of threads: the largest job, started in the best of these ways, has at least 0.8 of the
ideal, or of the ceiling where the machine itself has less than 0.9 of the ideal to give. Exits with 1 where one is missed or
could not be measured. Needs Python 3 and mpirun; a minute on 16 cores."""

import argparse
import os
import re
import struct
import subprocess
import sys
import tempfile
import time

LIMIT, GIVEN = 0.8, 0.9
WAYS = ("none", "slot:PE", "mpirun's")


class Failed(Exception):
    pass


PICTURES = 2048  # to learn from, for each worker


# And few to be tested with, which takes no part in what is timed.
def write_pictures(folder, workers):
    side = 8
    for name, count in (("train", PICTURES * workers), ("t10k", 32)):
        with open(os.path.join(folder, name + "-images-idx3-ubyte"), "wb") as f:
            f.write(struct.pack(">4I", 0x803, count, side, side) + bytes((i * 2654435761 >> 7) % 256 for i in range(count * side * side)))
        with open(os.path.join(folder, name + "-labels-idx1-ubyte"), "wb") as f:
            f.write(struct.pack(">2I", 0x801, count) + bytes(i % 10 for i in range(count)))


class Machine:
    def __init__(self, arguments, folder):
        self.a, self.folder, self.runs = arguments, folder, 0
        self.cores = len(os.sched_getaffinity(0))

    def left(self):
        return self.a.seconds - (time.time() - self.a.began)

    def demo(self, workers, threads):
        data = os.path.join(self.folder, f"pictures{workers}")
        if not os.path.isdir(data):
            os.mkdir(data)
            write_pictures(data, workers)
        self.runs += 1
        return [self.a.planck, "demo", "--data", data, "--out", os.path.join(self.folder, f"run{self.runs}"), "--qat-epochs", "1",
                "--epochs", str(self.a.epochs), "--batch", str(self.a.pictures * workers), "--threads", str(threads)]

    # All of them at once; what each printed.
    def outputs(self, commands):
        jobs = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
        found, until = [], time.time() + max(1, self.left())
        try:
            for job in jobs:
                output, errors = job.communicate(timeout=max(0.1, until - time.time()))
                if job.returncode != 0:
                    lines = [line.strip() for line in (errors or output).splitlines() if re.search(r"\w", line)]
                    own = [line for line in lines if line.startswith("planck")]
                    raise Failed((own or lines or [f"exit status {job.returncode}"])[0][:100])
                found.append(output)
        except subprocess.TimeoutExpired:
            raise Failed("no time was left") from None
        finally:
            for job in jobs:
                if job.poll() is None:
                    job.terminate()  # mpirun ends its workers
                    job.communicate()
        return found

    # Pictures per second of all of them, and what was said of waiting.
    def speed(self, commands):
        total, waiting = 0, ""
        for output in self.outputs(commands):
            said = re.search(r"^float training: (\d+) images/s(?: on \d+ workers, ([0-9.]+) % [^,]*, ([0-9.]+) %)?", output, re.M)
            if not said:
                raise Failed("the demo printed no speed")
            total += int(said.group(1))
            if said.group(2):
                waiting = f"{said.group(2)} % and {said.group(3)} %"
        return total, waiting

    def programs(self, count, threads):
        return self.speed([self.demo(1, threads) for _ in range(count)])

    def job(self, workers, threads, way):
        how = {"none": ["--bind-to", "none"], "slot:PE": ["--map-by", f"slot:PE={threads}"], "mpirun's": []}[way]
        if workers > self.cores:
            how.append("--oversubscribe")
        return self.speed([[self.a.mpirun, *(["--allow-run-as-root"] if os.geteuid() == 0 else []), *how, "-np", str(workers),
                            *self.demo(workers, threads)]])

    def measure(self, row):
        kind, count, threads, way = row
        return self.programs(count, threads) if kind == "programs" else self.job(count, threads, way)


# (kind, how many, threads of each, way), the more important ones first.
def rows_of(counts, threads):
    rows = [("programs", 1, t, "") for t in threads]
    for n in sorted(counts, reverse=True):
        rows += [("programs", n, t, "") for t in threads]
        rows += [("job", n, t, way) for t in threads for way in WAYS]
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("planck", help="the program")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--workers", default="2,4,8", help="of jobs; those with fewer cores than workers are left out")
    parser.add_argument("--threads", default="1,2", help="of each worker; so many cores must be there for each")
    parser.add_argument("--pictures", type=int, default=64, help="of each worker and step")
    parser.add_argument("--epochs", type=int, default=6, help="the first one is not timed")
    parser.add_argument("--seconds", type=float, default=58, help="for everything: rows are tried again while there is time")
    parser.add_argument("--tries", type=int, default=100, help="of each row, at most")
    parser.add_argument("--oversubscribe", action="store_true", help="rows with fewer cores than threads, too: no speed")
    a = parser.parse_args()
    a.began, a.planck = time.time(), os.path.abspath(a.planck)
    with tempfile.TemporaryDirectory(prefix="planck-scaling-") as folder:
        machine = Machine(a, folder)
        counts, threads = ([int(n) for n in text.split(",")] for text in (a.workers, a.threads))
        rows = [r for r in rows_of(counts, threads) if a.oversubscribe or r[1] * r[2] <= machine.cores]
        found, failed = measured(machine, rows)
        sys.exit(report(machine, rows, found, failed))


# The best of what each row was tried; why others failed.
def measured(machine, rows):
    found, failed, took = {}, {}, {}
    for again in range(machine.a.tries):
        for row in rows:
            if row in failed or machine.left() < 1.2 * took.get(row, 3):
                continue
            began = time.time()
            try:
                found[row] = max(found.get(row, (0, "", 0)), (*machine.measure(row), again))
            except (Failed, OSError) as error:
                if row not in found:
                    failed[row] = str(error)
            took[row] = time.time() - began
        if all(machine.left() < 1.2 * t for t in took.values()):
            break
    return found, failed


def report(machine, rows, found, failed):
    print(f"{machine.cores} cores; {machine.a.pictures} pictures for each worker and step; the best of what {time.time() - machine.a.began:.0f} seconds "
          "allowed; of the ideal: as many times what one program has; of the ceiling: of what so many programs have\n")
    print("| what | threads each | bound | pictures/s | of the ideal | of the ceiling | waiting for others, for bytes |\n|---|---|---|---|---|---|---|")
    best = {}  # of (workers, threads): of the ideal, of the ceiling, way
    for row in sorted(rows, key=lambda r: (r[2], r[0] == "job", r[1])):
        kind, n, t, way = row
        what = f"{n} program{'s' * (n > 1)}" if kind == "programs" else f"{n} workers"
        if row not in found:
            print(f"| {what} | {t} | {way} | {failed.get(row, 'not measured: no time was left')} | | | |")
            continue
        speed, waiting, _ = found[row]
        one, ceiling = found.get(("programs", 1, t, "")), found.get(("programs", n, t, ""))
        ideal = speed / (n * one[0]) if one else 0
        possible = speed / ceiling[0] if ceiling else 0
        print(f"| {what} | {t} | {way} | {speed} | {ideal:.2f} | {f'{possible:.2f}' if kind == 'job' else ''} | {waiting} |")
        if kind == "job":
            best[n, t] = max(best.get((n, t), (0, 0, "")), (ideal, possible, way))
    missed = not best
    print()
    for t in sorted({r[2] for r in rows}):
        n = max((r[1] for r in rows if r[0] == "job" and r[2] == t), default=0)
        if n == 0:
            continue  # a machine with fewer cores
        if (n, t) not in best:
            missed = True
            print(f"{t} thread{'s' * (t > 1)} each: not measured")
            continue
        ideal, possible, way = best[n, t]
        given = ideal / possible if possible else 1
        of_ceiling = given < GIVEN
        held = (possible if of_ceiling else ideal) >= LIMIT
        missed |= not held
        print(f"{n} workers with {t} thread{'s' * (t > 1)} each, bound as {way}: {ideal:.2f} of the ideal, {possible:.2f} of the ceiling, "
              f"which is {given:.2f} of the ideal; limit {LIMIT} of the {'ceiling' if of_ceiling else 'ideal'}: {'held' if held else 'MISSED'}")
    print(f"{time.time() - machine.a.began:.0f} seconds")
    return 1 if missed else 0


if __name__ == "__main__":
    main()
