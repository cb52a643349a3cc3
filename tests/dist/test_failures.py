"""Workers that are killed, raise, stand still, or lose a disk or a connection: the job ends with one line, what stands on the disk is
whole, and others go on to the same hash. $PLANCK_KILLS says how many kills are tried (3)."""

import ctypes
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import time

from jobs import COUNTS, Job, LONGER, MPI_TEST, main, mpirun


class Failures(Job):
    def test_a_killed_worker_ends_the_job_and_others_go_on(self):
        alone = self.sha(self.run_job(self.demo("alone")))
        chance, killed, wanted = random.Random(2026), 0, int(os.environ.get("PLANCK_KILLS", "3"))
        for kill in range(4 * wanted):
            if killed == wanted:
                break
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
        self.assertEqual(killed, wanted, "jobs had ended before their workers were killed")

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

    def test_workers_that_fail_together_say_one_line(self):
        self.fails(4, "^mpi_test: worker 1 of 4: the disk is full$", "fail", "1")
        self.fails(4, "^mpi_test: worker 2 of 4: the disk is full$", "fail", "2")

    def test_a_worker_that_throws_what_is_no_exception_of_ours(self):
        self.fails(2, "^mpi_test: worker 1 of 2: an exception of an unknown type$", "number")

    def test_an_exchange_that_was_given_up_writes_no_more(self):
        done = self.run_job([*mpirun(2), MPI_TEST, "gives_up"])
        self.assertEqual(done.returncode, 0, done.stderr)

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

    def test_beyond_ten_workers_too_one_speaks(self):
        self.fails(12, "^mpi_test: worker 10 of 12: the disk is full$", "fail", "10")

    def test_messages_of_other_lengths_are_refused(self):
        self.fails(2, "^mpi_test: worker 1 of 2: exchange: worker 0 sent 4 bytes, worker 1 expects 8$", "short")
        self.fails(2, "^mpi_test: worker 1 of 2: exchange: worker 0 sent more than the 4 bytes", "long")

    def test_what_never_arrives_ends_the_job_however_large_it_is(self):
        self.fails(2, "^mpi_test: worker 0 of 2: mpi: everyone waits", "lost", "300000000")

    def test_waiting_for_a_worker_that_has_left_ends_the_job(self):
        self.fails(3, r"^mpi_test: worker \d of 3: mpi: everyone waits", "leaves")

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


if __name__ == "__main__":
    main()
