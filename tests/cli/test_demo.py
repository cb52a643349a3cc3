"""demo, eval, predict: the same weights on any number of threads and after a kill, and clear refusals."""

import json
import os
import random
import re
import signal
import struct
import subprocess
import time
import unittest

from command import PLANCK, CommandTest

SHORT = ["--epochs", "2", "--qat-epochs", "1"]


def npy(path, shape, fmt, values):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': (%s,), }" % (
        {"f": "<f4", "B": "|u1"}[fmt], ", ".join(map(str, shape)))
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack("<%d%s" % (len(values), fmt), *values))


class Demo(CommandTest):
    def demo(self, folder, *options):
        return self.succeed("demo", "--out", self.path(folder), *SHORT, *options)

    def sha(self, text):
        return re.search(r"^weights sha256 ([0-9a-f]{64})$", text, re.M).group(1)

    def test_same_weights_on_any_number_of_threads_and_after_a_kill(self):
        text = self.demo("one", "--threads", "1")
        one = self.sha(text)
        self.assertIn("bit for bit: yes", text)
        self.assertEqual(len(re.findall(r"^.* (\d+\.\d\d) %", text, re.M)), 7, text)
        self.assertEqual(self.sha(self.demo("five", "--threads", "5")), one)
        if not os.environ.get("PLANCK_SANITIZE"):  # it takes minutes there
            self.assertEqual(self.sha(self.demo("baseline", "--cpu-target", "baseline")), one)
            exact = self.sha(self.demo("exact", "--math", "exact", "--threads", "1"))
            self.assertNotEqual(exact, one)
            self.assertEqual(self.sha(self.demo("exact2", "--math", "exact", "--cpu-target", "avx2")), exact)
            self.assertIn("exact", self.succeed("inspect", self.path("exact/model.safetensors"), "--json"))
        self.assertEqual(sorted(os.listdir(self.path("one"))),
                         ["model-int4.safetensors", "model-int8.safetensors", "model.safetensors", "report.html"])

        self.refuse("one/model.safetensors: exists; --force replaces it", "demo", "--out", self.path("one"), *SHORT)

        running = subprocess.Popen([PLANCK, "demo", "--out", self.path("killed"), *SHORT],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        checkpoint = self.path("killed/checkpoint.safetensors")
        until = time.time() + 300
        while not os.path.exists(checkpoint) and running.poll() is None and time.time() < until:
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        self.assertEqual(running.returncode, -signal.SIGKILL, "it ended before it was killed")
        self.refuse_damaged(self.content(checkpoint))
        resumed = self.demo("killed")
        self.assertIn("Going on", resumed)
        self.assertEqual(self.sha(resumed), one)

        # What the demo left can be used.
        for name, form in (("model", "float"), ("model-int8", "integer s8 per_channel learned")):
            j = json.loads(self.succeed("eval", self.path(f"one/{name}.safetensors"), "--json"))
            self.assertEqual(j["form"], form)
            self.assertGreater(j["accuracy"], 0.2)
        self.assertLess(os.path.getsize(self.path("one/model-int4.safetensors")),
                        os.path.getsize(self.path("one/model-int8.safetensors")))
        self.assertLess(os.path.getsize(self.path("one/model-int8.safetensors")) * 2,
                        os.path.getsize(self.path("one/model.safetensors")))
        npy(self.path("mine.npy"), (2, 8, 8), "f", [0.5] * 128)
        seen = json.loads(self.succeed("predict", self.path("one/model-int8.safetensors"), "digits:3",
                                       self.path("mine.npy"), "--json"))
        self.assertEqual([s["picture"] for s in seen], ["digits:3", self.path("mine.npy") + "[0]",
                                                        self.path("mine.npy") + "[1]"])
        self.assertEqual(seen[1]["logits"], seen[2]["logits"])

        # And nothing else can.
        other = self.path("one/model.safetensors")
        self.refuse("not the checkpoint of a run", "demo", "--out", self.with_checkpoint("a", self.content(other)))
        with open(self.path("cut.safetensors"), "wb") as f:
            f.write(self.content(other)[:-100])
        self.refuse("the file holds", "eval", self.path("cut.safetensors"))
        self.refuse("from 0 to 359", "predict", other, "digits:360")
        npy(self.path("flat.npy"), (64,), "f", [0.5] * 64)
        self.refuse("images are [count, height, width]", "predict", other, self.path("flat.npy"))

    def refuse_damaged(self, good):
        """A checkpoint with one bit flipped anywhere is not trained on."""
        header = 8 + struct.unpack("<Q", good[:8])[0]
        rng = random.Random(2)
        spots = [rng.randrange(header, len(good)) for _ in range(8)] + [rng.randrange(8, header) for _ in range(8)]
        for i, spot in enumerate(spots):
            if spot < header and good[spot:spot + 1] == b" ":  # no part of what the file says
                continue
            bad = bytearray(good)
            bad[spot] ^= 1 << rng.randrange(8)
            says = "is damaged" if spot >= header else ""
            self.refuse(says, "demo", "--out", self.with_checkpoint(f"bad{i}", bad), *SHORT)

    def content(self, path):
        with open(path, "rb") as f:
            return f.read()

    def with_checkpoint(self, folder, content):
        os.mkdir(self.path(folder))
        with open(self.path(folder + "/checkpoint.safetensors"), "wb") as f:
            f.write(content)
        return self.path(folder)

    def test_refusals(self):
        self.refuse("missing", "demo", "--data", self.path("missing"), "--out", self.path("d"))
        self.refuse("the file is empty", "demo", "--out", self.with_checkpoint("b", b""))
        self.refuse("avx7", "demo", "--cpu-target", "avx7", "--out", self.path("d"))
        self.refuse("both must be at least 1", "demo", "--epochs", "0", "--out", self.path("d"))
        self.refuse("missing.safetensors", "eval", self.path("missing.safetensors"))
        self.refuse("must be cpu, cuda or cuda:N", "demo", "--device", "tpu", "--out", self.path("d"))
        self.succeed("compare", "--keep", self.path("c"))
        self.refuse("does not say what model it holds", "eval", self.path("c/model.safetensors"))

    def test_cuda_trains_to_the_same_weights(self):
        done = self.run_planck("demo", "--out", self.path("c"), "--device", "cuda", *SHORT)
        if done.returncode == 2 and "no CUDA device" in done.stderr:
            self.skipTest("no CUDA device")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(self.sha(done.stdout), self.sha(self.demo("cpu")))


if __name__ == "__main__":
    unittest.main()
