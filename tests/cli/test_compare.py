"""compare: the same files on any number of threads, and the order of errors that granularity promises."""

import hashlib
import math
import os
import re
import signal
import subprocess
import time
import unittest

import checkpoint
from checkpoint import Tensor
from command import PLANCK, CommandTest


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

    def test_the_input_is_never_an_output(self):
        os.mkdir(self.path("k"))
        mine = self.path("k/per-tensor-s8.safetensors")
        checkpoint.write(mine, {"w": Tensor("F32", [4, 128], range(512))})
        os.link(mine, self.path("hard"))
        with open(self.path("k/index.json"), "w") as f:
            f.write('{"weight_map": {"w": "per-tensor-s8.safetensors"}}')
        before = self.read(mine)
        for given in (mine, self.path("hard"), self.path("k/index.json")):
            for more in ([], ["--force"]):
                self.refuse("is the input", "compare", given, "--keep", self.path("k"), *more)
        self.assertEqual(sorted(os.listdir(self.path("k"))), ["index.json", "per-tensor-s8.safetensors"])
        self.assertEqual(self.read(mine), before)

    def read(self, path):
        with open(path, "rb") as f:
            return f.read()

    def test_ways_that_no_tensor_can_take_are_skipped_and_say_why(self):
        """Rows of 6 are no groups of 128, and rows of 7 are not whole bytes of four bits either."""
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [4, 6], range(24))})
        for more in ([], ["--keep", self.path("k")]):
            text = self.succeed("compare", self.path("in"), *more)
            self.assertIn("quantized 6 ways", text)
            self.assertEqual(len(re.findall(r"^per-\S+ +s[48] +[0-9.]+ ", text, re.M)), 6, text)
            for dtype in ("s8", "s4"):
                self.assertRegex(text, rf"(?m)^per-group +{dtype} +skipped *$")
                self.assertRegex(text, rf"(?m)^per-group {dtype} is skipped: .*no tensor can be quantized.*group is 128, .*\[4, 6\]")
        self.assertEqual(sorted(os.listdir(self.path("k"))),
                         sorted(f"per-{how}-{dtype}.safetensors" for how in ("tensor", "channel", "token") for dtype in ("s8", "s4")))
        self.assertIn("planck inspect " + self.path("k/per-token-s4.safetensors"), text)
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [4, 7], range(28))})
        self.assertRegex(self.succeed("compare", self.path("in")), r"(?m)^per-tensor s4 is skipped: ")

    def test_where_no_way_is_left_nothing_is_written(self):
        """Neither a folder nor an exit code of 3: no output was put in place."""
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [512], range(512))})
        for more in ([], ["--keep", self.path("k")]):
            self.refuse("no tensor can be quantized", "compare", self.path("in"), *more)
        self.assertEqual(self.names(), ["in"])

    def test_a_failure_without_keep_is_a_2(self):
        """Files in a folder of temporary ones are no outputs: nothing was put in place."""
        tmp = self.path("tmp")
        os.mkdir(tmp)
        checkpoint.write_sparse(self.path("in"), {f"w{i}": [1024, 1024] for i in range(12)})
        process = self.start("compare", self.path("in"), env={**os.environ, "TMPDIR": tmp})
        self.wait_for(process, lambda: any("per-channel" in n for _, _, names in os.walk(tmp) for n in names))
        os.truncate(self.path("in"), 8192)
        _, stderr = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 2, stderr)
        self.assertRegex(stderr, r"^planck[^\n]*\n$")

    def start(self, *arguments, **options):
        return subprocess.Popen([PLANCK, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)

    def wait_for(self, process, seen):
        while not seen():
            self.assertIsNone(process.poll())
            time.sleep(0.002)

    def test_ended_half_way_it_says_what_is_there(self):
        checkpoint.write_sparse(self.path("in"), {f"w{i}": [1024, 1024] for i in range(24)})
        self.succeed("compare", self.path("in"), "--keep", self.path("whole"))
        whole = {name: self.read(self.path("whole/" + name)) for name in os.listdir(self.path("whole"))}
        for number in (signal.SIGINT, None):
            process = self.start("compare", self.path("in"), "--keep", self.path("k"))
            self.wait_for(process, lambda: os.path.exists(self.path("k/per-channel-s8.safetensors")))
            if number is not None:
                process.send_signal(number)
            else:
                os.truncate(self.path("in"), 8192)
            _, stderr = process.communicate(timeout=600)
            made = [n for n in os.listdir(self.path("k")) if not n.startswith(".")]
            self.assertTrue(2 <= len(made) < 8, made)
            for name in made:
                self.assertEqual(self.read(self.path("k/" + name)), whole[name])
            self.assertEqual(process.returncode, 3 if number is None else -number, stderr)
            self.assertEqual(stderr.count("\n"), 1, stderr)
            self.assertNotIn("nothing is", stderr)
            if number is not None:
                self.assertIn(f"files in {self.path('k')} are whole, others are missing; the same command with --force", stderr)
                self.refuse("--force", "compare", self.path("in"), "--keep", self.path("k"))
                self.succeed("compare", self.path("in"), "--keep", self.path("k"), "--force")
                self.assertEqual({n: self.read(self.path("k/" + n)) for n in os.listdir(self.path("k"))}, whole)
                subprocess.run(["rm", "-r", self.path("k")], check=True)

    def test_cuda_writes_the_same_bytes(self):
        done = self.run_planck("compare", "--keep", self.path("c"), "--device", "cuda")
        if done.returncode == 2 and "no CUDA device" in done.stderr:
            self.skipTest("no CUDA device")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.parse(done.stdout), self.rows())
        ways = [["--method", "mse", "--dtype", "s4", "--scheme", "per-group"], ["--method", "mse", "--affine", "--dtype", "u8"],
                ["--method", "mse", "--scheme", "per-tensor"], ["--axis", "1", "--affine"],
                ["--format", "gguf"], ["--format", "gguf", "--dtype", "q4_k"],
                ["--format", "compressed-tensors", "--dtype", "s4", "--scheme", "per-group"],
                ["--format", "compressed-tensors", "--method", "mse"]]
        for i, way in enumerate(ways):
            with self.subTest(way):
                digests = []
                for device in ("cpu", "cuda"):
                    out = self.path(f"{device}-{i}")
                    self.succeed("quantize", self.path("d/model.safetensors"), "-o", out, "--device", device, *way)
                    files = [out] if os.path.isfile(out) else [os.path.join(out, n) for n in sorted(os.listdir(out))]
                    digests.append([(os.path.basename(f).replace(device, ""), hashlib.sha256(self.read(f)).hexdigest())
                                    for f in files])
                self.assertEqual(*digests)


if __name__ == "__main__":
    unittest.main()
