"""What a command writes: never over its input, never half, with the mode and the link that were there."""

import fcntl
import os
import random
import shutil
import signal
import stat
import subprocess
import time
import unittest

import checkpoint
from checkpoint import Tensor
from command import PLANCK, CommandTest

MODEL = {"w": Tensor("F32", [8, 16], range(128))}


class Outputs(CommandTest):
    def setUp(self):
        super().setUp()
        checkpoint.write(self.path("in"), MODEL)
        self.content = self.read("in")

    def read(self, name):
        with open(self.path(name), "rb") as f:
            return f.read()

    def quantize(self, out, *more):
        return self.succeed("quantize", self.path("in"), "-o", self.path(out), *more)

    def test_the_input_is_never_the_output(self):
        os.symlink("in", self.path("link"))
        os.link(self.path("in"), self.path("hard"))
        os.mkdir(self.path("folder"))
        for out in ("in", "link", "hard", "folder/../in"):
            for more in ([], ["--force"]):
                self.refuse("is the input", "quantize", self.path("in"), "-o", self.path(out), *more)
                self.refuse("is the input", "quantize", self.path(out), "-o", self.path("in"), *more)
        self.assertEqual(self.read("in"), self.content)
        self.quantize("q")
        self.refuse("is the input", "dequantize", self.path("q"), "-o", self.path("q"), "--force")

    def test_overwriting_needs_force(self):
        self.quantize("q")
        before = self.read("q")
        self.refuse("exists; --force replaces it", "quantize", self.path("in"), "-o", self.path("q"), "--dtype", "s4")
        self.assertEqual(self.read("q"), before)
        self.quantize("q", "--dtype", "s4", "--force")
        self.assertNotEqual(self.read("q"), before)
        self.refuse("exists; --force replaces it", "dequantize", self.path("q"), "-o", self.path("in"))

    def test_a_replaced_file_keeps_its_mode_and_its_link(self):
        self.quantize("q")
        for mode in (0o600, 0o640, 0o444):
            os.chmod(self.path("q"), mode)
            self.quantize("q", "--force")
            self.assertEqual(stat.S_IMODE(os.stat(self.path("q")).st_mode), mode)
        os.mkdir(self.path("elsewhere"))
        os.symlink("elsewhere/target", self.path("link"))
        shutil.copy(self.path("q"), self.path("elsewhere/target"))
        os.chmod(self.path("elsewhere/target"), 0o600)
        self.quantize("link", "--force", "--dtype", "s4")
        self.assertEqual(os.readlink(self.path("link")), "elsewhere/target")
        self.assertEqual(stat.S_IMODE(os.stat(self.path("elsewhere/target")).st_mode), 0o600)
        self.assertNotEqual(self.read("elsewhere/target"), self.read("q"))

    def test_links_that_lead_nowhere(self):
        os.symlink("absent", self.path("dangling"))
        os.symlink("circle", self.path("circle"))
        for name, why in (("dangling", "No such file"), ("circle", "Too many levels of symbolic links")):
            self.refuse(f"is a link that cannot be followed: {why}", "quantize", self.path("in"), "-o", self.path(name))
            self.assertTrue(os.path.islink(self.path(name)))
            self.refuse(why, "inspect", self.path(name))
        self.assertNotIn("absent", self.names())

    def test_what_a_killed_run_left_is_removed_by_the_next(self):
        ours, held = ".q.0123456789abcdef.partial", ".q.fedcba9876543210.partial"
        others = [".q.0123.partial", ".other.0123456789abcdef.partial", ".q.0123456789abcdef.part"]
        for name in (ours, held, *others):
            open(self.path(name), "w").close()
        with open(self.path(held)) as running:
            fcntl.flock(running, fcntl.LOCK_EX)
            self.quantize("q")
            self.assertEqual(self.names(), sorted(["in", "q", held, *others]))
        self.quantize("q", "--force")
        self.assertEqual(self.names(), sorted(["in", "q", *others]))

    def test_killed_at_any_moment_the_old_file_or_the_new_one(self):
        checkpoint.write(self.path("in"), {f"w{i}": Tensor("F32", [1024, 512], data=bytes(2 ** 21)) for i in range(24)})
        with open(self.path("q"), "w") as f:
            f.write("the old one")
        began = time.monotonic()
        self.quantize("new")
        whole, new = time.monotonic() - began, self.read("new")
        rng = random.Random(3)
        for _ in range(10):
            process = subprocess.Popen([PLANCK, "quantize", self.path("in"), "-o", self.path("q"), "--force"],
                                       stdout=subprocess.DEVNULL)
            time.sleep(rng.random() * whole)
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.assertIn(self.read("q"), (b"the old one", new))
        self.quantize("q", "--force")
        self.assertEqual(self.read("q"), new)
        self.assertEqual(self.names(), ["in", "new", "q"])

    def test_a_folder_that_may_be_written_but_not_read(self):
        os.mkdir(self.path("blind"))
        os.chmod(self.path("blind"), 0o333)
        binary, user = PLANCK, {}
        if os.geteuid() == 0:  # as somebody else, whom modes bind
            os.chmod(self.folder, 0o755)
            binary = shutil.copy(PLANCK, self.path("planck"))
            user = {"user": 65534, "group": 65534}
        done = subprocess.run([binary, "quantize", self.path("in"), "-o", self.path("blind/q")], capture_output=True,
                              text=True, timeout=600, **user)
        os.chmod(self.path("blind"), 0o755)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(os.listdir(self.path("blind")), ["q"])

    def test_exit_code_2_says_that_nothing_was_replaced(self):
        """A report that nobody can read is not worth a 2: the output is in place."""
        with open("/dev/full", "w") as full:
            done = subprocess.run([PLANCK, "quantize", self.path("in"), "-o", self.path("q")], stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 3)
        self.assertIn("cannot write to standard output", done.stderr)
        self.assertIn("q", self.names())


if __name__ == "__main__":
    unittest.main()
