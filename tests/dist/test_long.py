"""What takes minutes: workers, bytes and jobs that are slow, which is no failure, and the demo to its end."""

import os
import re
import signal
import subprocess
import time

from jobs import Job, LONGER, MPI_TEST, PLANCK, main, mpirun


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
    main()
