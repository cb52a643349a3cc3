"""The same files from AVX-512, AVX2 and the baseline, on one thread, two and five: every format, method and dtype."""

import hashlib
import itertools
import os
import random
import shutil
import subprocess
import unittest

import checkpoint
from checkpoint import Tensor
from command import CommandTest

RUNS = [("avx512", "5"), ("avx512", "1"), ("avx2", "1"), ("avx2", "2"), ("baseline", "2"), ("baseline", "5")]
CASES = [*itertools.product(["per_channel", "per_tensor", "per_token", "per_group"], ["s8", "u4"], ["rtn", "mse"], ["planck"]),
         *itertools.product(["per_channel", "per_group"], ["s4", "s8"], ["rtn", "mse"], ["compressed-tensors"]),
         *[("per_token", dtype, "rtn", "gguf") for dtype in ("Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q6_K")]]


def contents(path):
    """A digest of a file, or of a folder's files by name; what was there is gone."""
    digest = hashlib.sha256()
    names = sorted(os.listdir(path)) if os.path.isdir(path) else [""]
    for name in names:
        with open(os.path.join(path, name) if name else path, "rb") as f:
            digest.update(name.encode() + b"\0" + f.read())
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    return digest.hexdigest()


def odd_blocks(rng):
    """512 blocks of 32, of the kinds that vector loops leave to plain ones, between those that they take."""
    infinity, tiny = float("inf"), 1e-44
    kinds = [lambda: 0.0, lambda: -0.0, lambda: rng.choice([1.0, -1.0]), lambda: rng.gauss(0, 1),
             lambda: rng.choice([infinity, 1.0, -0.5]), lambda: rng.choice([float("nan"), -infinity, 0.25]),
             lambda: rng.choice([tiny, -3 * tiny, 0.0]), lambda: rng.gauss(0, 1e-38), lambda: rng.uniform(-3e38, 3e38),
             lambda: rng.randrange(-254, 255) / 2, lambda: rng.randrange(0, 16) / 4, lambda: abs(rng.gauss(0, 1)),
             lambda: rng.gauss(0, 1e6), lambda: rng.gauss(0, 1e-9)]
    values = []
    for _ in range(512):
        kind = rng.choice(kinds)
        values += [kind() for _ in range(32)]
    return values


class Targets(CommandTest):
    def test_the_same_bytes_and_errors(self):
        rng = random.Random(1)
        values = [rng.gauss(0, 1) * rng.choice([0.01, 1, 1, 1, 9]) for _ in range(40 * 1024)]
        names = {"f": ("F32", [40, 1024]), "h": ("F16", [40, 1024]), "b": ("BF16", [160, 256]), "d": ("F64", [40, 1024])}
        tensors = {n + ".weight": Tensor(dtype, shape, values) for n, (dtype, shape) in names.items()}
        tensors["odd.weight"] = Tensor("F32", [64, 256], odd_blocks(rng))
        checkpoint.write(self.path("in"), tensors)
        seen = set()
        for case in CASES:
            found = set()
            for target, threads in RUNS:
                done = subprocess.run([os.environ["CPU_TARGETS"], self.path("in"), self.path("out"), target, threads, *case],
                                      capture_output=True, text=True, timeout=600)
                if done.returncode == 77:
                    continue
                self.assertEqual(done.returncode, 0, (case, done.stderr))
                seen.add(target)
                found.add((contents(self.path("out")), done.stdout))
            self.assertEqual(len(found), 1, case)
        print("instruction sets:", ", ".join(sorted(seen)))
        self.assertIn("baseline", seen)


if __name__ == "__main__":
    unittest.main()
