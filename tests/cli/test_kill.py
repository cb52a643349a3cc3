"""kill -9 at any moment leaves the old output or the new one, and nothing else once the next run has passed.

KILLS=50 tries more moments than a usual run does."""

import hashlib
import os
import random
import signal
import subprocess
import time
import unittest

from command import PLANCK, CommandTest
from test_memory import write_sparse

KILLS = int(os.environ.get("KILLS", "6"))


def contents(path):
    """A digest of a file, or of a folder's files by name."""
    if not os.path.exists(path):
        return None
    if os.path.isdir(path):
        return tuple((n, contents(os.path.join(path, n))) for n in sorted(os.listdir(path)))
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


class Killed(CommandTest):
    def test_old_or_new_and_nothing_left(self):
        write_sparse(self.path("in"), tensors=3, rows=1024)
        for out, options, old in [("q", [], "the old one"), ("folder", ["--shard-size", "5MB"], None)]:
            arguments = [PLANCK, "quantize", self.path("in"), "-o", self.path(out), "--force", *options]
            began = time.monotonic()
            subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
            takes, new = time.monotonic() - began, contents(self.path(out))
            rng = random.Random(3)
            for _ in range(KILLS):
                subprocess.run(["rm", "-rf", self.path(out)], check=True)
                if old is not None:
                    with open(self.path(out), "w") as f:
                        f.write(old)
                before = contents(self.path(out))
                process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
                time.sleep(rng.uniform(0, takes * 1.1))
                process.send_signal(signal.SIGKILL)
                process.wait()
                self.assertIn(contents(self.path(out)), (before, new))
                subprocess.run(["rm", "-rf", self.path(out)], check=True)
                subprocess.run(arguments, check=True, stdout=subprocess.DEVNULL)
                self.assertEqual(contents(self.path(out)), new)
                self.assertEqual(sorted(set(self.names()) - {"q", "folder"}), ["in"])


if __name__ == "__main__":
    unittest.main()
