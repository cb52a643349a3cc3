"""Workers that are processes: one hash for any number of them, after kills too, and failures that end the job.

$PLANCK and $MPI_TEST are programs; $PLANCK_KILLS says how many kills are tried (3). Exits with 77 where there is no
mpirun, or the build has no MPI."""

import ctypes
import glob
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

PLANCK, MPI_TEST = os.environ["PLANCK"], os.environ["MPI_TEST"]
SHORT = ["--epochs", "2", "--qat-epochs", "1"]
LONGER = ["--epochs", "20", "--qat-epochs", "1"]
COUNTS = (1, 2, 3, 4)


def mpirun(count):
    # Two cores may run four workers: they must not wait for each other by spinning.
    return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--mca", "mpi_yield_when_idle", "1", "-np", str(count)]


class Workers(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="planck-dist-")
        self.addCleanup(self._folder.cleanup)

    def path(self, name):
        return os.path.join(self._folder.name, name)

    def demo(self, folder, *options, length=SHORT):
        return [PLANCK, "demo", "--out", self.path(folder), *length, *options]

    def run_job(self, command, **options):
        return subprocess.run(command, capture_output=True, text=True, timeout=300, **options)

    def sha(self, done):
        self.assertEqual(done.returncode, 0, done.stderr)
        found = re.findall(r"^weights sha256 ([0-9a-f]{64})$", done.stdout, re.M)
        self.assertEqual(len(found), 1, done.stdout)
        return found[0]

    def test_sums_do_not_depend_on_the_number_of_workers(self):
        hashes = set()
        for count in COUNTS:
            done = self.run_job([*mpirun(count), MPI_TEST])
            self.assertEqual(done.returncode, 0, (count, done.stderr))
            hashes.add(done.stdout.strip())
        self.assertEqual(len(hashes), 1, hashes)

    def test_the_demo_has_one_hash(self):
        alone = self.sha(self.run_job(self.demo("alone", "--threads", "2")))
        for count in COUNTS:
            log = self.path("log")
            done = self.run_job([*mpirun(count), *self.demo(f"on{count}", "--log", log)])
            self.assertEqual(self.sha(done), alone, count)
            for rank in range(count):
                with open(f"{log}.{rank}.jsonl") as f:
                    self.assertEqual(len(f.readlines()), 4)  # epochs
            self.assertEqual(sorted(os.listdir(self.path(f"on{count}"))),
                             ["model-int4.safetensors", "model-int8.safetensors", "model.safetensors", "report.html"])

    def children(self, parent):
        for stat in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(stat) as f:
                    pid, _, _, ppid = re.match(r"(\d+) (\(.*\)) (\S) (\d+)", f.read()).groups()
            except OSError:
                continue
            if int(ppid) == parent:
                yield int(pid)

    def test_a_killed_worker_ends_the_job_and_others_go_on(self):
        alone = self.sha(self.run_job(self.demo("alone")))
        chance, killed = random.Random(2026), 0
        for kill in range(int(os.environ.get("PLANCK_KILLS", "3"))):
            folder, count = f"killed{kill}", chance.choice((2, 3, 4))
            job = subprocess.Popen([*mpirun(count), *self.demo(folder)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
            checkpoint = self.path(f"{folder}/checkpoint.safetensors")
            until = time.time() + 120
            while not os.path.exists(checkpoint) and job.poll() is None and time.time() < until:
                time.sleep(0.01)
            time.sleep(chance.random() * 0.3)
            workers = sorted(self.children(job.pid))
            if workers and job.poll() is None:
                os.kill(chance.choice(workers), signal.SIGKILL)
            began = time.time()
            _, errors = job.communicate(timeout=60)
            self.assertLess(time.time() - began, 10, "the job went on")
            if job.returncode == 0:
                continue  # it had ended already
            self.assertRegex(errors, r"(?i)signal 9|killed")
            others = chance.choice([n for n in COUNTS if n != count])
            resumed = self.run_job([*mpirun(others), *self.demo(folder)])
            self.assertEqual(self.sha(resumed), alone, (kill, count, others))
            killed += 1
        self.assertGreater(killed, 0, "every job had ended before its worker was killed")

    def one_line(self, done, says):
        self.assertNotEqual(done.returncode, 0)
        lines = [line for line in done.stderr.splitlines() if line.startswith("planck")]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], says)

    def test_a_worker_that_fails_ends_the_job_with_one_line(self):
        os.mkdir(self.path("log.1.jsonl"))  # so that worker 1 cannot write there
        began = time.time()
        done = self.run_job([*mpirun(3), *self.demo("d", "--log", self.path("log"))])
        self.assertLess(time.time() - began, 10)
        self.one_line(done, r"^planck demo: worker 1 of 3: .*log\.1\.jsonl: cannot be written$")
        done = self.run_job([*mpirun(2), *self.demo("d", "--data", self.path("missing"))])
        self.one_line(done, r"^planck demo: worker 0 of 2: .*missing")

    def test_a_full_disk_ends_the_job_and_leaves_nothing_half_written(self):
        job = subprocess.Popen([*mpirun(2), *self.demo("full")], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        job.stdout.readline()  # MPI, which has large files of its own, has started
        for worker in self.children(job.pid):
            resource.prlimit(worker, resource.RLIMIT_FSIZE, (65536, 65536))
        _, errors = job.communicate(timeout=120)
        done = subprocess.CompletedProcess([], job.returncode, "", errors)
        self.one_line(done, r"^planck demo: worker 0 of 2: .*checkpoint\.safetensors: .*[Ff]ile too large")
        self.assertEqual(os.listdir(self.path("full")), [])

    def connections(self, workers):
        """(worker, descriptor) of each TCP connection between two of them, one end of each."""
        owner = {}  # of the inode of a socket
        for worker in workers:
            for fd in os.listdir(f"/proc/{worker}/fd"):
                try:
                    found = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(f"/proc/{worker}/fd/{fd}"))
                except OSError:
                    continue
                if found:
                    owner[found.group(1)] = (worker, int(fd))
        with open(f"/proc/{workers[0]}/net/tcp") as f:
            rows = [line.split() for line in f.readlines()[1:]]
        open_ends = {row[1]: (row[2], row[9]) for row in rows if row[3] == "01"}
        for remote, inode in (open_ends[end] for end in sorted(open_ends)):
            other = owner.get(open_ends.get(remote, (None, None))[1])
            if inode in owner and other and other[0] != owner[inode][0]:
                yield owner[inode]

    def test_a_lost_connection_ends_the_job_with_one_line(self):
        if not hasattr(os, "pidfd_open"):
            self.skipTest("this Python cannot reach the descriptors of others")
        job = subprocess.Popen([*mpirun(3), "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                                *self.demo("lost", length=LONGER)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True)
        self.addCleanup(job.kill)
        until, found = time.time() + 60, []
        while not found and job.poll() is None and time.time() < until:
            time.sleep(0.1)
            if os.path.exists(self.path("lost/checkpoint.safetensors")):  # all of them talk to each other
                found = list(self.connections(sorted(self.children(job.pid))))
        self.assertTrue(found, "the workers have no connections")
        worker, descriptor = found[0]
        copy = ctypes.CDLL(None, use_errno=True).syscall(438, os.pidfd_open(worker), descriptor, 0)  # pidfd_getfd
        if copy < 0:
            job.kill()
            job.communicate()
            self.skipTest("descriptors of others cannot be taken here: " + os.strerror(ctypes.get_errno()))
        with socket.socket(fileno=copy) as connection:
            connection.shutdown(socket.SHUT_RDWR)
        began = time.time()
        output, errors = job.communicate(timeout=120)
        done = subprocess.CompletedProcess([], job.returncode, output, errors)
        if job.returncode == 0:  # MPI has set it up again, and nothing was on its way
            ended = done
        else:
            self.assertLess(time.time() - began, 10, "the job went on")
            self.one_line(done, r"^planck.*: worker \d of 3: (mpi: |MPI_)")
            ended = self.run_job([*mpirun(2), *self.demo("lost", length=LONGER)])
            self.assertIn("Going on where the run", ended.stdout)
        self.assertEqual(self.sha(ended), self.sha(self.run_job(self.demo("alone", length=LONGER))))

    def test_all_reduce_is_timed(self):
        done = self.run_job([*mpirun(3), PLANCK, "allreduce", "--bytes", "4096,100000", "--min-time", "0.01", "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count('"ratio"'), 2)


if __name__ == "__main__":
    if shutil.which("mpirun") is None or not os.environ.get("PLANCK_WITH_MPI"):
        print("skipped: there is no mpirun, or this build has no MPI")
        sys.exit(77)
    unittest.main()
