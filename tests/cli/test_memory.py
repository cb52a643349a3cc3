"""Long tests: a checkpoint of 1.5 GB, one of 10 GB in shards, and a single tensor of 3 GB, in a process that may have
300 MB of its own; and a process killed half way."""

import json
import os
import resource
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest

from command import PLANCK, CommandTest

TENSORS, ROWS, COLUMNS = 24, 4096, 4096  # F32: 64 MiB each
LIMIT = 300 << 20


def write_sparse(path, tensors=TENSORS, rows=ROWS, first=0):
    size = rows * COLUMNS * 4
    header = {f"w{first + i:02}": {"dtype": "F32", "shape": [rows, COLUMNS], "data_offsets": [i * size, (i + 1) * size]}
              for i in range(tensors)}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for i in range(tensors):  # a few values, so that not all is zero
            f.seek(8 + len(text) + i * size + 4096 * 100)
            f.write(struct.pack("<4f", 1.0, -2.0, 0.25, float(i)))
        f.truncate(8 + len(text) + tensors * size)


def limit():
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))


class Memory(CommandTest):
    def peak(self, *arguments):
        """Peak resident bytes of one run, mapped file pages included."""
        code = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        done = subprocess.run([sys.executable, "-c", code, PLANCK, *arguments], capture_output=True, text=True,
                              preexec_fn=limit)
        self.assertEqual(done.returncode, 0, done.stderr)
        return int(done.stdout) * 1024

    def test_peak_is_bounded_by_the_largest_tensor(self):
        write_sparse(self.path("in"))
        for options in (["--scheme", "per-channel", "--dtype", "s8"], ["--scheme", "per-group", "--dtype", "u4", "--affine"]):
            self.assertLess(self.peak("quantize", self.path("in"), "-o", self.path("q"), "--force", *options), LIMIT)
        self.assertLess(self.peak("dequantize", self.path("q"), "-o", self.path("r")), LIMIT)
        self.assertEqual(os.path.getsize(self.path("r")) // 2 ** 20, TENSORS * 64)

    def test_ten_gigabytes_in_shards(self):
        os.mkdir(self.path("model"))
        for shard in range(5):
            write_sparse(os.path.join(self.path("model"), f"model-{shard + 1:05}-of-00005.safetensors"), 32,
                         first=32 * shard)
        self.assertLess(self.peak("quantize", self.path("model"), "-o", self.path("small"), "--dtype", "s4", "--scheme",
                                  "per-group", "--shard-size", "500MB"), LIMIT)
        shards = [n for n in os.listdir(self.path("small")) if n.endswith(".safetensors")]
        self.assertEqual(len(shards), 3)

    def test_one_tensor_larger_than_memory(self):
        write_sparse(self.path("in"), 1, 3 << 16)  # 3 GiB
        for scheme in ["per-tensor", "per-channel"]:
            self.assertLess(self.peak("quantize", self.path("in"), "-o", self.path("q"), "--scheme", scheme, "--force"), LIMIT)
        self.assertLess(self.peak("dequantize", self.path("q"), "-o", self.path("r")), LIMIT)

    def test_a_killed_process_leaves_nothing(self):
        write_sparse(self.path("in"))
        with open(self.path("q"), "w") as f:
            f.write("the old one")
        process = subprocess.Popen([PLANCK, "quantize", self.path("in"), "-o", self.path("q"), "--force"], stdout=subprocess.DEVNULL)
        killer = threading.Timer(0.5, lambda: process.send_signal(signal.SIGKILL))
        killer.start()
        self.assertEqual(process.wait(), -signal.SIGKILL)
        time.sleep(0.1)
        self.assertEqual(self.names(), ["in", "q"])
        with open(self.path("q")) as f:
            self.assertEqual(f.read(), "the old one")


if __name__ == "__main__":
    unittest.main()
