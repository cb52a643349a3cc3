"""Workers that are processes: one hash for any number of them, after kills too, and failures that end the job.

$PLANCK, $MPI_TEST and $MPI_CALLER_TEST are programs; $PLANCK_KILLS says how many kills are tried (3). Workers are the
tests of every day, Long those that take minutes. Exits with 77 where there is no mpirun, or the build has no MPI."""

import ctypes
import glob
import json
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


class Workers(Job):
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
            with open(self.path(f"on{count}/results.json")) as f:
                waiting = json.load(f)["share_of_time_waiting"]
            if count == 1:
                self.assertEqual(waiting, {"for_others": 0, "for_bytes_alone": 0})
            else:
                self.assertTrue(0 < waiting["for_bytes_alone"] <= waiting["for_others"] < 1, waiting)
            self.assertEqual(sorted(os.listdir(self.path(f"on{count}"))),
                             ["model-int4.onnx", "model-int4.qdq.onnx", "model-int4.safetensors", "model-int8.onnx", "model-int8.qdq.onnx",
                              "model-int8.safetensors", "model.safetensors", "report.html", "results.json"])

    def test_a_killed_worker_ends_the_job_and_others_go_on(self):
        alone = self.sha(self.run_job(self.demo("alone")))
        chance, killed = random.Random(2026), 0
        for kill in range(int(os.environ.get("PLANCK_KILLS", "3"))):
            folder, count = f"killed{kill}", chance.choice((2, 3, 4))
            job = self.start(count, self.demo(folder))
            self.wait_for(self.path(f"{folder}/checkpoint.safetensors"), job)
            time.sleep(chance.random() * 0.3)
            workers = sorted(self.children(job.pid))
            if workers and job.poll() is None:
                os.kill(chance.choice(workers), signal.SIGKILL)
            done = self.ended(job)
            if done.returncode == 0:
                continue  # it had ended already
            self.assertRegex(done.stderr, r"(?i)signal 9|killed")
            others = chance.choice([n for n in COUNTS if n != count])
            resumed = self.run_job([*mpirun(others), *self.demo(folder)])
            self.assertEqual(self.sha(resumed), alone, (kill, count, others))
            killed += 1
        self.assertGreater(killed, 0, "every job had ended before its worker was killed")

    def test_a_worker_that_fails_ends_the_job_with_one_line(self):
        os.mkdir(self.path("log.1.jsonl"))  # so that worker 1 cannot write there
        began = time.time()
        done = self.run_job([*mpirun(3), *self.demo("d", "--log", self.path("log"))])
        self.assertLess(time.time() - began, 10)
        self.one_line(done, r"^planck demo: worker 1 of 3: .*log\.1\.jsonl: cannot be written$")
        done = self.run_job([*mpirun(2), *self.demo("d", "--data", self.path("missing"))])
        self.one_line(done, r"^planck demo: worker 0 of 2: .*missing")

    def test_a_full_disk_ends_the_job_and_leaves_nothing_half_written(self):
        job = self.start(2, self.demo("full"))
        job.stdout.readline()  # MPI, which has large files of its own, has started
        self.limit_files(self.children(job.pid), 65536)
        self.one_line(self.ended(job),
                      r"^planck demo: worker 0 of 2: .*checkpoint\.safetensors: .*[Ff]ile too large")
        self.assertEqual(os.listdir(self.path("full")), [])

    def test_a_disk_that_fills_up_later_leaves_the_last_checkpoint(self):
        job = self.start(2, self.demo("fills", length=LONGER))
        self.wait_for(self.path("fills/checkpoint.safetensors"), job)
        self.limit_files(self.children(job.pid), 65536)
        self.one_line(self.ended(job),
                      r"^planck demo: worker 0 of 2: .*checkpoint\.safetensors: .*[Ff]ile too large")
        self.assertEqual(os.listdir(self.path("fills")), ["checkpoint.safetensors"])
        resumed = self.run_job([*mpirun(3), *self.demo("fills", length=LONGER)])
        self.assertIn("Going on where the run", resumed.stdout)
        self.assertEqual(self.sha(resumed), self.sha(self.run_job(self.demo("alone", length=LONGER))))

    def test_a_worker_that_raises_in_the_middle_of_training(self):
        job = self.start(3, self.demo("raises", "--log", self.path("log"), length=LONGER))
        self.wait_for(self.path("raises/checkpoint.safetensors"), job)
        self.limit_files([self.worker(job, 1)], 0)  # its log, which it writes after each epoch
        self.one_line(self.ended(job), r"^planck demo: worker 1 of 3: .*log\.1\.jsonl: cannot be written$")
        with open(self.path("log.0.jsonl"), "a") as f:
            f.write('{"rank": 0, "wor')  # as a disk that was full leaves it
        resumed = self.run_job([*mpirun(2), *self.demo("raises", "--log", self.path("log"), length=LONGER)])
        self.assertEqual(self.sha(resumed), self.sha(self.run_job(self.demo("alone", length=LONGER))))
        with open(self.path("log.0.jsonl")) as f:  # of both runs: whole lines, no epoch is missing
            rows = [json.loads(line) for line in f]
        self.assertEqual({row["workers"] for row in rows}, {2, 3})
        self.assertEqual({row["epoch"] for row in rows if row["stage"] == rows[0]["stage"]}, set(range(1, 21)))

    def test_a_disk_that_is_full_for_one_part_leaves_the_last_checkpoint(self):
        os.mkdir(self.path("parts"))
        os.environ["MPI_TEST_FOLDER"] = self.path("parts")
        self.fails(3, r"^mpi_test: worker 1 of 3: .*\.part: .*[Ff]ile too large", "full")
        self.assertEqual([f for f in os.listdir(self.path("parts")) if f.endswith(".partial")], [])
        done = self.run_job([*mpirun(2), MPI_TEST, "read", "3"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(os.listdir(self.path("parts"))), 3)  # a list and two parts

    def test_a_worker_that_stands_still(self):
        alone = self.sha(self.run_job(self.demo("alone", length=LONGER)))
        job = self.start(3, self.demo("stopped", length=LONGER))
        self.wait_for(self.path("stopped/checkpoint.safetensors"), job)
        os.kill(self.worker(job, 1), signal.SIGSTOP)
        self.one_line(self.ended(job), r"^planck: worker [02] of 3: mpi: others cannot be heard any more$")
        job = self.start(2, self.demo("stopped", length=LONGER))
        job.stdout.readline()
        late = self.worker(job, 1)
        os.kill(late, signal.SIGSTOP)
        time.sleep(3)
        os.kill(late, signal.SIGCONT)
        output, errors = job.communicate(timeout=120)
        self.assertEqual(self.sha(subprocess.CompletedProcess([], job.returncode, output, errors)), alone)

    def test_a_checkpoint_of_another_run_is_refused(self):
        job = self.start(2, self.demo("other", length=LONGER))
        self.wait_for(self.path("other/checkpoint.safetensors"), job)
        job.terminate()
        job.communicate()
        with open(self.path("other/checkpoint.safetensors"), "rb") as f:
            before = f.read()
        began = time.time()
        done = self.run_job([*mpirun(3), *self.demo("other")])
        self.assertLess(time.time() - began, 10)
        self.one_line(done, r"^planck demo: worker 0 of 3: .*checkpoint\.safetensors: belongs to another run: .*20 \+ 1 epochs")
        with open(self.path("other/checkpoint.safetensors"), "rb") as f:
            self.assertEqual(f.read(), before)

    def test_workers_that_fail_together_say_one_line(self):
        self.fails(4, "^mpi_test: worker 1 of 4: the disk is full$", "fail", "1")
        self.fails(4, "^mpi_test: worker 2 of 4: the disk is full$", "fail", "2")

    def test_a_worker_that_throws_what_is_no_exception_of_ours(self):
        self.fails(2, "^mpi_test: worker 1 of 2: an exception of an unknown type$", "number")

    def test_an_exchange_that_was_given_up_writes_no_more(self):
        done = self.run_job([*mpirun(2), MPI_TEST, "gives_up"])
        self.assertEqual(done.returncode, 0, done.stderr)

    # As many as the demo's own digits, of other pixels.
    def write_pictures(self, folder):
        os.mkdir(folder)
        count = 1437 + 360
        for name, dtype, shape, data in (("images.npy", "|u1", (count, 8, 8), bytes(i % 251 for i in range(count * 64))),
                                         ("labels.npy", "<i8", (count,), b"".join((i % 10).to_bytes(8, "little") for i in range(count)))):
            header = str({"descr": dtype, "fortran_order": False, "shape": shape})
            header += " " * (-(len(header) + 11) % 64) + "\n"
            with open(os.path.join(folder, name), "wb") as f:
                f.write(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode("latin1") + data)

    def test_workers_that_were_started_differently_are_refused(self):
        data = self.path("pictures")
        self.write_pictures(data)
        for other in (["--math", "exact"], ["--dtype", "bf16"], ["--batch", "32"], ["--data", data]):
            began = time.time()
            done = self.run_job([*mpirun(1), *self.demo("d"), ":", "-np", "1", *self.demo("d", *other)])
            self.assertLess(time.time() - began, 10)
            self.one_line(done, "^planck demo: worker 0 of 2: workers must be started alike: worker 1 has .*; worker 0 has ")
            self.assertFalse(os.path.exists(self.path("d")))

    # NCCL takes a GPU for each worker: here there is none, or one, or this build has no NCCL.
    def test_nccl_without_a_gpu_for_each_worker_ends_the_job_with_one_line(self):
        gpu = shutil.which("nvidia-smi") and subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout
        if gpu and gpu.count("GPU ") > 1:
            self.skipTest("there are several GPUs")
        began = time.time()
        done = self.run_job([*mpirun(2), *self.demo("d", "--sums", "nccl", *(["--device", "cuda"] if gpu else []))])
        self.assertLess(time.time() - began, 20)
        self.one_line(done, "^planck demo: worker 0 of 2: .*(nccl|NCCL)")
        self.assertEqual(os.listdir(self.path("d")), [])
        done = self.run_job([*mpirun(1), *self.demo("d"), ":", "-np", "1", *self.demo("d", "--sums", "nccl")])
        self.one_line(done, "^planck demo: worker 0 of 2: workers must be started alike: worker 1 has .*, sums nccl; ")

    def test_what_a_machine_does_is_measured(self):
        done = self.run_job([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "measure.py"), PLANCK, "--cuda", "no",
                             "--parts", "allreduce", "--tries", "1", "--min-time", "0.005", "--seconds", "200"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\n\| all-reduce on 2, from 1 MiB on, times MPI's \| \d+\.\d\d \| ≤ 1\.15 \| (yes|NO) \|\n")

    def test_beyond_ten_workers_too_one_speaks(self):
        self.fails(12, "^mpi_test: worker 10 of 12: the disk is full$", "fail", "10")

    def threads_of(self, *options):
        folder = f"threads{len(os.listdir(self._folder.name))}"
        self.run_job(["mpirun", "--allow-run-as-root", *options, *self.demo(folder, length=["--epochs", "1", "--qat-epochs", "1"])])
        with open(self.path(f"{folder}/results.json")) as f:
            return json.load(f)["made"]["threads"]

    def test_a_worker_uses_the_cores_it_is_bound_to(self):
        cores = len(os.sched_getaffinity(0))
        self.assertEqual(self.threads_of("--bind-to", "core", "-np", "1"), 1)
        self.assertEqual(self.threads_of("--bind-to", "none", "-np", "1"), cores)
        self.assertEqual(self.threads_of("--bind-to", "none", "--oversubscribe", "-np", "2"), max(1, cores // 2))

    def test_messages_of_other_lengths_are_refused(self):
        self.fails(2, "^mpi_test: worker 1 of 2: exchange: worker 0 sent 4 bytes, worker 1 expects 8$", "short")
        self.fails(2, "^mpi_test: worker 1 of 2: exchange: worker 0 sent more than the 4 bytes", "long")

    def test_what_never_arrives_ends_the_job_however_large_it_is(self):
        self.fails(2, "^mpi_test: worker 0 of 2: mpi: everyone waits", "lost", "300000000")

    def test_waiting_for_a_worker_that_has_left_ends_the_job(self):
        self.fails(3, r"^mpi_test: worker \d of 3: mpi: everyone waits", "leaves")

    def test_a_program_that_has_started_mpi_itself(self):
        done = self.run_job([*mpirun(2), os.environ["MPI_CALLER_TEST"]])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("the program started it with thread level 0, it must be MPI_THREAD_MULTIPLE"),
                         2, done.stdout)
        done = self.run_job([*mpirun(2), os.environ["MPI_CALLER_TEST"], "threads"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("joined"), 2, done.stdout)
        self.assertEqual(done.stdout.count("it has ended in this process"), 2, done.stdout)

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
        job = self.start(3, ["--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                             *self.demo("lost", length=LONGER)])
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
        self.assertEqual([(row["way"], row["bytes"]) for row in json.loads(done.stdout)["rows"]],
                         [("gather", 4096), ("direct", 100000)])


class Long(Job):
    def test_a_worker_that_is_slow_is_no_failure(self):
        for count in (2, 3):
            done = self.run_job([*mpirun(count), MPI_TEST, "slow", "8"])
            self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)

    # By a scheduler, or ^Z: nobody heard anybody for longer than a lost worker is waited for.
    def test_a_job_that_was_suspended_goes_on(self):
        alone = self.sha(self.run_job(self.demo("alone", length=LONGER)))
        job = self.start(3, self.demo("suspended", length=LONGER))
        self.wait_for(self.path("suspended/checkpoint.safetensors"), job)
        # The first is stopped first and continued last: meanwhile the others listen to it.
        first, *others = (self.worker(job, rank) for rank in range(3))
        os.kill(first, signal.SIGSTOP)
        time.sleep(1.5)
        for worker in others:
            os.kill(worker, signal.SIGSTOP)
        time.sleep(9)
        for worker in others:
            os.kill(worker, signal.SIGCONT)
        time.sleep(0.5)
        os.kill(first, signal.SIGCONT)
        output, errors = job.communicate(timeout=120)
        self.assertEqual(self.sha(subprocess.CompletedProcess([], job.returncode, output, errors)), alone)

    def test_bytes_that_are_slow_are_no_failure(self):
        done = self.run_job([*mpirun(2), MPI_TEST, "trickle", "12"])
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)

    def test_the_demo_to_its_end_has_the_hash_of_the_readme(self):
        with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../README.md")) as f:
            said = re.search(r"^weights sha256 ([0-9a-f]{64})$", f.read(), re.M).group(1)
        done = subprocess.run([*mpirun(2), PLANCK, "demo", "--out", self.path("whole")], capture_output=True, text=True)
        self.assertEqual(self.sha(done), said)


if __name__ == "__main__":
    if shutil.which("mpirun") is None or not os.environ.get("PLANCK_WITH_MPI"):
        print("skipped: there is no mpirun, or this build has no MPI")
        sys.exit(77)
    unittest.main()
