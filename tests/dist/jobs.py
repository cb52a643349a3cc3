"""Jobs under mpirun, for tests: how they are started, what they print, who their workers are, how they end.

$PLANCK, $MPI_TEST and $MPI_CALLER_TEST are programs."""

import glob
import os
import re
import resource
import shutil
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


class Job(unittest.TestCase):
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

    def one_line(self, done, says, program="planck"):
        self.assertNotEqual(done.returncode, 0)
        lines = [line for line in done.stderr.splitlines() if line.startswith(program)]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertRegex(lines[0], says)

    # A job of mpi_test that must end, within 10 seconds, with one line.
    def fails(self, count, says, *what):
        began = time.time()
        done = self.run_job([*mpirun(count), MPI_TEST, *what])
        self.assertLess(time.time() - began, 10, what)
        self.one_line(done, says, "mpi_test")

    def children(self, parent):
        for stat in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(stat) as f:
                    pid, _, _, ppid = re.match(r"(\d+) (\(.*\)) (\S) (\d+)", f.read()).groups()
            except OSError:
                continue
            if int(ppid) == parent:
                yield int(pid)

    def worker(self, job, rank):
        for pid in self.children(job.pid):
            with open(f"/proc/{pid}/environ") as f:
                if f"OMPI_COMM_WORLD_RANK={rank}\0" in f.read():
                    return pid
        self.fail(f"there is no worker {rank}")

    def start(self, count, command):
        job = subprocess.Popen([*mpirun(count), *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(job.kill)
        return job

    def wait_for(self, path, job):
        until = time.time() + 120
        while not os.path.exists(path) and job.poll() is None and time.time() < until:
            time.sleep(0.01)

    # From now on no file of these processes grows past this, as on a full disk.
    def limit_files(self, workers, size):
        for worker in workers:
            resource.prlimit(worker, resource.RLIMIT_FSIZE, (size, size))

    def ended(self, job):
        began = time.time()
        output, errors = job.communicate(timeout=120)
        self.assertLess(time.time() - began, 10, "the job went on")
        return subprocess.CompletedProcess([], job.returncode, output, errors)


# Exits with 77 where there is no mpirun, or the build has no MPI.
def main():
    if shutil.which("mpirun") is None or not os.environ.get("PLANCK_WITH_MPI"):
        print("skipped: there is no mpirun, or this build has no MPI")
        sys.exit(77)
    unittest.main()
