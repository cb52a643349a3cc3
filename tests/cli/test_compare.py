"""compare: the same files on any number of threads, and the order of errors that granularity promises."""

import os
import re
import unittest

from command import CommandTest


class Compare(CommandTest):
    def rows(self, *options):
        return self.parse(self.succeed("compare", "--out", self.path("d"), *options))

    def parse(self, text):
        return {m[0]: m for m in re.findall(
            r"^(\S+ +s[48]) +(\S+) +(\S+) +(\S+) +(\S+ MiB) +(\S+) +([0-9a-f]{16})  (\S+)$", text, re.M)}

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

    def test_cuda_writes_the_same_bytes(self):
        done = self.run_planck("compare", "--out", self.path("c"), "--device", "cuda")
        if done.returncode == 2 and "no CUDA device" in done.stderr:
            self.skipTest("no CUDA device")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.parse(done.stdout), self.rows())


if __name__ == "__main__":
    unittest.main()
