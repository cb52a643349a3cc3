"""compare: the same files on any number of threads, and the order of errors that granularity promises."""

import math
import os
import re
import unittest

import checkpoint
from checkpoint import Tensor
from command import CommandTest


class Compare(CommandTest):
    def rows(self, *options):
        return self.parse(self.succeed("compare", "--keep", self.path("d"), "--force", *options))

    def parse(self, text):
        return {m[0]: m for m in re.findall(
            r"^(\S+ +s[48]) +(\S+) +(\S+) +(\S+) +\d+ +(\S+ MiB) +(\S+) +([0-9a-f]{16})  (\S+)$", text, re.M)}

    def test_compare(self):
        one, two = self.rows("--threads", "1"), self.rows("--threads", "2")
        self.assertEqual(len(one), 8)
        self.assertEqual(one, two)
        self.assertEqual(len({m[6] for m in one.values()}), 8)
        mean = {key.split()[0] + key.split()[1]: float(m[1]) for key, m in one.items()}
        for dtype in ("s8", "s4"):
            # Three rank-3 tensors tell channels from tokens.
            self.assertLess(mean["per-tensor" + dtype] + 3, mean["per-channel" + dtype])
            self.assertLess(mean["per-channel" + dtype], mean["per-token" + dtype])
            self.assertLess(mean["per-token" + dtype], mean["per-group" + dtype])
        self.assertLess(mean["per-group" + "s4"] + 15, mean["per-group" + "s8"])
        size = os.path.getsize(self.path("d/model.safetensors"))
        self.assertTrue(10e6 < size < 20e6, size)

    def test_an_exact_tensor_does_not_hide_the_others(self):
        """Zeros lose nothing; the mean is of the tensors that lose something."""
        checkpoint.write(self.path("in"), {"zeros": Tensor("F32", [4, 128], [0.0] * 512),
                                           "w": Tensor("F32", [4, 128], [math.sin(i) for i in range(512)])})
        text = self.succeed("compare", self.path("in"))
        rows = re.findall(r"^per-\S+ +s[48] +(\S+) +(\S+) +(\S+) +(\d+) ", text, re.M)
        self.assertEqual(len(rows), 8, text)
        for mean, worst, _, exact in rows:
            self.assertEqual((mean, exact), (worst, "1"))
            self.assertTrue(15 < float(mean) < 60, mean)

    def test_nothing_is_written_unless_it_is_kept(self):
        folder = self.path("tmp")
        os.mkdir(folder)
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [4, 128], range(512))})
        before = self.names()
        text = self.succeed("compare", self.path("in"), cwd=self.folder, env={**os.environ, "TMPDIR": folder})
        self.assertIn("Nothing was kept", text)
        self.assertEqual((self.names(), os.listdir(folder)), (before, []))
        os.mkdir(os.path.join(folder, "planck-compare-abcdef"))  # of a process that was killed
        self.succeed("compare", self.path("in"), env={**os.environ, "TMPDIR": folder})
        self.assertEqual(os.listdir(folder), [])
        self.refuse("the folder is not empty; --force", "compare", self.path("in"), "--keep", self.folder)

    def test_cuda_writes_the_same_bytes(self):
        done = self.run_planck("compare", "--keep", self.path("c"), "--device", "cuda")
        if done.returncode == 2 and "no CUDA device" in done.stderr:
            self.skipTest("no CUDA device")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.parse(done.stdout), self.rows())


if __name__ == "__main__":
    unittest.main()
