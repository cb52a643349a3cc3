"""Workers that are processes: one hash for any number of them, on the cores that are theirs, and none that was started differently."""

import json
import os
import sys
import time

from jobs import COUNTS, Job, LONGER, MPI_TEST, PLANCK, main, mpirun


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

    def test_a_program_that_has_started_mpi_itself(self):
        done = self.run_job([*mpirun(2), os.environ["MPI_CALLER_TEST"]])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("the program started it with thread level 0, it must be MPI_THREAD_MULTIPLE"),
                         2, done.stdout)
        done = self.run_job([*mpirun(2), os.environ["MPI_CALLER_TEST"], "threads"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.count("joined"), 2, done.stdout)
        self.assertEqual(done.stdout.count("it has ended in this process"), 2, done.stdout)

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

    def test_what_a_machine_does_is_measured(self):
        done = self.run_job([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "measure.py"), PLANCK, "--cuda", "no",
                             "--parts", "allreduce", "--tries", "1", "--min-time", "0.005", "--seconds", "200"])
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"\n\| all-reduce on 2, from 1 MiB on, times MPI's \| \d+\.\d\d \| ≤ 1\.15 \| (yes|NO) \|\n")

    def test_how_training_scales_is_measured(self):
        done = self.run_job([sys.executable, os.path.join(os.path.dirname(os.path.abspath(__file__)), "measure_scaling.py"), PLANCK,
                             "--workers", "2", "--threads", "1", "--epochs", "1", "--seconds", "120", "--tries", "1", "--oversubscribe"])
        self.assertIn(done.returncode, (0, 1), done.stderr)  # 1: the machine had something else to do
        for row in (r"1 program \| 1 \| ", r"2 programs \| 1 \| ", r"2 workers \| 1 \| none"):
            self.assertRegex(done.stdout, r"\n\| " + row + r" \| \d+ \| \d\.\d\d \| ")
        self.assertRegex(done.stdout, r"\n2 workers with 1 thread each, bound as .*: (held|MISSED)\n")

    def test_all_reduce_is_timed(self):
        done = self.run_job([*mpirun(3), PLANCK, "allreduce", "--bytes", "4096,100000", "--min-time", "0.01", "--json"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([(row["way"], row["bytes"]) for row in json.loads(done.stdout)["rows"]],
                         [("gather", 4096), ("direct", 100000)])


if __name__ == "__main__":
    main()
