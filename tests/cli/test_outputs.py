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

    def test_what_a_killed_run_left_of_a_file_that_nobody_may_write(self):
        open(self.path(".q.0123456789abcdef.partial"), "w").close()
        os.chmod(self.path(".q.0123456789abcdef.partial"), 0o444)
        binary, user = self.somebody_else()
        os.chmod(self.folder, 0o777)
        if user:
            os.chown(self.path(".q.0123456789abcdef.partial"), 65534, 65534)
        done = subprocess.run([binary, "quantize", self.path("in"), "-o", self.path("q")], capture_output=True, text=True,
                              timeout=600, **user)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual([n for n in self.names() if n.startswith(".")], [])

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

    def somebody_else(self):
        """The binary, and how to run it as one whom modes bind."""
        if os.geteuid() != 0:
            return PLANCK, {}
        os.chmod(self.folder, 0o755)
        return shutil.copy(PLANCK, self.path("planck")), {"user": 65534, "group": 65534}

    def test_a_folder_that_may_be_written_but_not_read(self):
        os.mkdir(self.path("blind"))
        os.chmod(self.path("blind"), 0o333)
        binary, user = self.somebody_else()
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


class Folders(CommandTest):
    def setUp(self):
        super().setUp()
        os.mkdir(self.path("in"))
        checkpoint.write(self.path("in/model.safetensors"), {f"{n}.weight": MODEL["w"] for n in "abc"})
        for name in ("config.json", "tokenizer.json"):
            with open(self.path(f"in/{name}"), "w") as f:
                f.write("{}")

    def quantize(self, out, *more):
        return self.succeed("quantize", self.path("in"), "-o", self.path(out), *more)

    def mode(self, name):
        return stat.S_IMODE(os.stat(self.path(name)).st_mode)

    def test_a_folder_of_somebody_is_never_removed(self):
        mine = [".z.partial-notes", ".z.partial-0123456", ".z.partial-012345678", ".z.partial-0123456G"]
        for name in mine + [".z.partial-0123cdef"]:
            os.mkdir(self.path(name))
            open(self.path(f"{name}/file"), "w").close()
        self.quantize("z")
        self.assertEqual(self.names(), sorted(["in", "z", *mine]))
        for name in mine:
            self.assertEqual(os.listdir(self.path(name)), ["file"])

    def test_modes_are_no_wider_than_those_of_the_input(self):
        os.umask(os.umask(0o022))
        self.quantize("plain")
        self.assertEqual([self.mode(n) for n in ("plain", "plain/model.safetensors", "plain/config.json")],
                         [self.mode(n) for n in ("in", "in/model.safetensors", "in/config.json")])
        os.chmod(self.path("in/config.json"), 0o600)
        os.chmod(self.path("in/tokenizer.json"), 0o440)
        os.chmod(self.path("in/model.safetensors"), 0o400)
        os.chmod(self.path("in"), 0o700)
        for out, more in (("one", []), ("shards", ["--shard-size", "1KB"]), ("packed", ["--format", "compressed-tensors"])):
            self.quantize(out, *more)
            modes = {n: self.mode(f"{out}/{n}") for n in os.listdir(self.path(out))}
            self.assertEqual(modes.pop("tokenizer.json"), 0o440)
            self.assertEqual(set(modes.values()), {0o600}, modes)
            self.assertEqual(self.mode(out), 0o700)
        self.quantize("one.safetensors")
        self.assertEqual(self.mode("one.safetensors"), 0o600)
        self.succeed("dequantize", self.path("one"), "-o", self.path("back"))
        self.assertEqual([self.mode(n) for n in ("back", "back/config.json", "back/model.safetensors")],
                         [0o700, 0o600, 0o600])

    def test_an_empty_folder_keeps_its_mode(self):
        for mode in (0o700, 0o751, 0o2770):
            os.mkdir(self.path("out"))
            os.chmod(self.path("out"), mode)
            self.quantize("out")
            self.assertEqual(self.mode("out"), mode)
            self.assertIn("model.safetensors", os.listdir(self.path("out")))
            shutil.rmtree(self.path("out"))

    def test_links(self):
        os.symlink("absent", self.path("dangling"))
        os.symlink("circle", self.path("circle"))
        os.symlink("in/config.json", self.path("file"))
        for name, why in (("dangling", "is a link that cannot be followed: No such file"),
                          ("circle", "is a link that cannot be followed: Too many levels of symbolic links"),
                          ("file", "is a file, a folder")):
            for command in ("quantize", "dequantize"):
                if command == "dequantize":
                    checkpoint.write(self.path("in/model.safetensors"), {"e": Tensor("F8_E4M3", [4], range(4))})
                line = self.refuse(why, command, self.path("in"), "-o", self.path(name), "--shard-size", "1KB", "--force")
                self.assertIn(self.path(name), line)
                self.setUp_again()
        os.mkdir(self.path("elsewhere"))
        os.mkdir(self.path("elsewhere/empty"))
        os.symlink("elsewhere/empty", self.path("link"))
        self.quantize("link")
        self.assertEqual(os.readlink(self.path("link")), "elsewhere/empty")
        self.assertEqual(os.listdir(self.path("elsewhere")), ["empty"])
        self.assertIn("model.safetensors", os.listdir(self.path("elsewhere/empty")))
        self.assertEqual(self.names(), ["circle", "dangling", "elsewhere", "file", "in", "link"])

    def setUp_again(self):
        checkpoint.write(self.path("in/model.safetensors"), {f"{n}.weight": MODEL["w"] for n in "abc"})

    def test_a_folder_where_a_file_system_is_mounted(self):
        os.mkdir(self.path("mounted"))
        script = 'mount -t tmpfs none "$1" && "$2" quantize "$3" -o "$1"'
        done = subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh",
                               self.path("mounted"), PLANCK, self.path("in")], capture_output=True, text=True)
        if "unshare" in done.stderr or "mount:" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("is where a file system is mounted", done.stderr)

    def test_what_is_refused_at_the_end_has_put_nothing_in_place(self):
        bad = Tensor("F32", [8, 16], [float("nan")] + [1.0] * 127)
        checkpoint.write(self.path("in/model.safetensors"), {"a.weight": bad})
        for more in ([], ["--shard-size", "1KB"], ["--format", "compressed-tensors"]):
            self.refuse("--strict refuses them", "quantize", self.path("in"), "-o", self.path("x/y/out"), "--strict", *more)
            self.assertEqual(self.names(), ["in"])

    def test_more_shards_than_files_may_be_open(self):
        checkpoint.write(self.path("many"), {f"w{i:03}": Tensor("F32", [2, 2], range(4)) for i in range(300)})
        done = subprocess.run(["sh", "-c", 'ulimit -S -n 64; exec "$@"', "sh", PLANCK, "quantize", self.path("many"), "-o",
                               self.path("out"), "--shard-size", "1B"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(len(os.listdir(self.path("out"))), 301)


if __name__ == "__main__":
    unittest.main()
