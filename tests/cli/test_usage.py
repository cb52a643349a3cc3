"""The command line as people expect it: how much it says, what it offers, what it says when it is misread."""

import fcntl
import json
import os
import pty
import re
import shutil
import signal
import struct
import subprocess
import termios
import time
import unittest

import checkpoint
from checkpoint import Tensor
from command import PLANCK, CommandTest


def on_terminal(columns, *arguments):
    """What a terminal of so many columns is sent."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    process = subprocess.Popen([PLANCK, *arguments], stdout=follower, stderr=follower)
    os.close(follower)
    sent = b""
    try:
        while piece := os.read(leader, 65536):
            sent += piece
    except OSError:  # how the end of a terminal reads
        pass
    os.close(leader)
    return process.wait(), sent.decode()


class Usage(CommandTest):
    def setUp(self):
        super().setUp()
        self.tensors = {"w": Tensor("F32", [8, 16], range(128)), "long" * 20: Tensor("BF16", [8, 16], range(128)),
                        "norm": Tensor("F32", [16], range(16)), "ids": Tensor("I64", [2], [1, 2])}
        checkpoint.write(self.path("in"), self.tensors)

    def quantize(self, *more):
        return ["quantize", self.path("in"), "-o", self.path("q"), "--force", *more]

    def test_quiet_and_verbose(self):
        for arguments in (self.quantize("-q"), self.quantize("--quiet"), ["-q", *self.quantize()], ["ops", "-q"],
                          ["inspect", self.path("in"), "-q"]):
            self.assertEqual(self.succeed(*arguments), "")
        self.assertTrue(json.loads(self.succeed(*self.quantize("-q", "--json")))["tensors"])
        done = self.run_planck(*self.quantize("-v"))
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^planck \d+\.\d+\.\d+: [0-9.]+ s, [0-9.]+ s of CPU, \d+ MB of memory at most\n$")
        self.refuse("--verbose", "ops", "-q", "-v")

    def test_version_and_help(self):
        self.assertEqual(self.succeed("-V"), self.succeed("--version"))
        self.assertEqual(self.succeed("help"), self.succeed("--help"))
        self.assertEqual(self.succeed("help", "quantize"), self.succeed("quantize", "--help"))
        self.refuse("no command is called quantise (did you mean quantize?); there are: ", "help", "quantise")

    def test_did_you_mean(self):
        self.refuse("did you mean inspect?", "insepct", self.path("in"))
        self.refuse("did you mean --scheme?", *self.quantize("--schema", "per-group"))
        self.refuse("did you mean --include?", *self.quantize("--inlcude=x"))
        self.refuse("did you mean softmax?", "run", "sofmax", "--in", self.path("in"), "--out", self.path("o"))
        self.refuse("did you mean quantize_per_group?", "run", "--list", "quantise_per_group")
        self.assertNotIn("did you mean", self.refuse("no command is called xylophone", "xylophone"))

    def test_completion(self):
        for shell in ("bash", "zsh", "fish"):
            script = self.succeed("completion", shell)
            for word in ("quantize", "dequantize", "per-group", "dry-run", "ops --names"):
                self.assertIn(word, script, shell)
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, text=True, check=True)
        ask = (self.succeed("completion", "bash") + 'PATH=$(dirname "$PLANCK"):$PATH\n'
               "try() { COMP_WORDS=(planck \"$@\"); COMP_CWORD=$#; _planck; echo ${COMPREPLY[*]}; }\n"
               "try quan; try quantize --sch; try quantize --dtype s; try run quantize_per_g; try -\n"
               "touch 'two words.gguf'; try inspect two; try help ins\n")
        told = subprocess.run(["bash"], input=ask, capture_output=True, text=True, cwd=self.folder).stdout.splitlines()
        self.assertEqual(told[:3], ["quantize", "--scheme", "s8 s4"])
        self.assertEqual(told[3].split()[:2], ["quantize_per_group", "quantize_per_group_backward"])
        self.assertIn("--quiet", told[4])
        self.assertEqual(told[5:], ["two words.gguf", "inspect"])
        self.complete_in_zsh()
        self.complete_in_fish()
        self.refuse("tcsh", "completion", "tcsh")

    def complete_in_zsh(self):
        """With stand-ins for what zsh gives a completion: the words typed, and compadd."""
        if not shutil.which("zsh"):
            return
        ask = ("compdef() { :; }\ncompadd() { shift; print -r -- $*; }\n_files() { print files; }\n"
               'path=(${PLANCK:h} $path)\n' + self.succeed("completion", "zsh") +
               "try() { words=(planck $*); CURRENT=$#words; _planck; }\n"
               "try quantize --dtype s; try help ins\n")
        told = subprocess.run(["zsh", "-f"], input=ask, capture_output=True, text=True, check=True)
        self.assertEqual(told.stderr, "")
        self.assertEqual(told.stdout.splitlines()[0].split()[:4], ["s8", "u8", "s4", "u4"])
        self.assertEqual(told.stdout.splitlines()[1], "files")
        self.assertIn("inspect", told.stdout.splitlines()[2].split())

    def complete_in_fish(self):
        if not shutil.which("fish"):
            return
        for typed, want in [("planck quan", "quantize"), ("planck quantize --dtype q8", "q8_0"), ("planck help ins", "inspect")]:
            ask = self.succeed("completion", "fish") + f"complete -C '{typed}'\n"
            told = subprocess.run(["fish", "--no-config"], input=ask, capture_output=True, text=True, check=True, cwd=self.folder,
                                  env={**os.environ, "HOME": self.folder, "PATH": os.path.dirname(PLANCK) + ":" + os.environ["PATH"]})
            self.assertEqual([line.split("\t")[0] for line in told.stdout.splitlines()], [want], typed)

    def test_ops_by_pattern_and_names(self):
        names = self.succeed("ops", "--names").splitlines()
        self.assertEqual(names, [op["op"] for op in json.loads(self.succeed("ops", "--json"))])
        self.assertIn("split", names)
        some = self.succeed("ops", "^quantize.*group", "--names").split()
        self.assertEqual(some, ["quantize_per_group", "quantize_per_group_backward"])
        self.assertEqual([op["op"] for op in json.loads(self.succeed("ops", "^quantize.*group", "--json"))], some)
        self.refuse("PATTERN zzz matches no op", "ops", "zzz")
        for op in json.loads(self.succeed("ops", "--json")):
            self.assertIsInstance(op["attributes"], list, op["op"])

    def test_dry_run(self):
        before = self.names()
        text = self.succeed("quantize", self.path("in"), "-o", self.path("q"), "--dry-run", "--dtype", "s4")
        self.assertEqual(self.names(), before)
        self.assertRegex(text, r"(?m)^per-channel 0 s4 +2 +768 B +")
        self.assertRegex(text, r"(?m)^kept: not a float +1 +16 B +16 B$")
        self.assertRegex(text, r"(?m)^kept: rank 1 is below 2 +1 +64 B +64 B$")
        planned = json.loads(self.succeed(*self.quantize("--dry-run", "--json")))
        done = json.loads(self.succeed(*self.quantize("--json")))
        self.assertEqual((planned["dry_run"], done["dry_run"]), (True, False))
        self.assertEqual(planned["file_bytes_after"], os.path.getsize(self.path("q")))
        keys = ("name", "bytes_before", "bytes_after", "quantized", "kept")
        self.assertEqual(*[[{k: t.get(k) for k in keys} for t in j["tensors"]] for j in (planned, done)])

    def test_tables_fit_the_terminal(self):
        ends = ("workspace for", self.folder)  # what comes after a table
        for columns, arguments in [(60, ["inspect", self.path("in")]), (80, ["inspect", self.path("in")]),
                                   (80, self.quantize()), (120, self.quantize()), (80, ["ops", "quantize"])]:
            code, text = on_terminal(columns, *arguments)
            self.assertEqual(code, 0)
            lines = [line.rsplit("\x1b[K", 1)[-1] for line in text.replace("\r\n", "\n").split("\n")]
            lines = [line for line in lines if line and not line.startswith(ends)]
            self.assertGreater(len(lines), 5)
            for line in lines:
                self.assertLessEqual(len(line), columns, line)
        self.assertIn("…", on_terminal(60, "inspect", self.path("in"))[1])
        self.assertIn("long" * 20, on_terminal(200, "inspect", self.path("in"))[1])

    def test_the_progress_bar_has_one_width_and_says_the_time_left(self):
        checkpoint.write_sparse(self.path("in"), {f"w{i}.{'x' * (i % 40)}": [1024, 1024] for i in range(160)})
        code, text = on_terminal(80, *self.quantize("--threads", "1"))
        self.assertEqual(code, 0)
        bars = re.findall(r"\r\x1b\[K(\[[#.]+\][^\r\n]*)", text)
        self.assertGreater(len(bars), 2)
        self.assertEqual({len(re.match(r"\[[#.]+\]", bar)[0]) for bar in bars}, {22})
        self.assertEqual({bar.index("w") for bar in bars}, {59})
        for bar in bars:
            self.assertLess(len(bar), 80)
            self.assertRegex(bar, r"^\[[#.]{20}\] +\d+ %  +[0-9.]+ \w+/s  ( +\d+:\d\d left| {12})  w")
        self.assertTrue(text.rstrip("\n").count("\r\x1b[K") > len(bars))  # and it is wiped

    def test_an_interrupt_says_how_to_go_on(self):
        checkpoint.write_sparse(self.path("in"), {f"w{i}": [4096, 1024] for i in range(48)})
        for number in (signal.SIGINT, signal.SIGTERM):
            process = subprocess.Popen([PLANCK, *self.quantize()], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                       text=True)
            while self.path("in") not in open(f"/proc/{process.pid}/maps").read():
                self.assertIsNone(process.poll())
            time.sleep(0.05)
            process.send_signal(number)
            _, stderr = process.communicate(timeout=600)
            self.assertEqual(process.returncode, -number)
            self.assertEqual(stderr, f"planck quantize: interrupted; {self.path('q')} is as it was; the same command "
                                     "starts over\n")
            self.assertEqual(self.names(), ["in"])

    def test_messages_name_the_flag(self):
        for arguments, flag in [(self.quantize("--include", "zzz"), "--include zzz matches no name"),
                                (self.quantize("--exclude", "zzz"), "--exclude zzz matches no name"),
                                (self.quantize("--include", "["), "--include ["),
                                (self.quantize("--dtype", "s9"), "--dtype"), (self.quantize("--scheme", "x"), "--scheme"),
                                (self.quantize("--axis", "zero"), "--axis"), (self.quantize("--group", "0"), "--group"),
                                (["run", "exp", "--in", self.path("in"), "--out", self.path("o"), "--set", "a"], "--set"),
                                (["compare", "--keep", self.path("in")], "--keep"),
                                (["demo", "--epochs", "0"], "--epochs"), (["bench", "--filter", "zzz"], "--filter")]:
            self.refuse(flag, *arguments)


if __name__ == "__main__":
    unittest.main()
