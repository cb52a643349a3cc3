"""What shells offer after `planck TAB`, asked in the shells themselves. Where zsh or fish is missing its test cannot run:
the whole test then ends as skipped, once all others have passed, so that ctest lists it with the reason."""

import os
import shutil
import subprocess
import sys
import unittest

from clients import SKIPPED
from command import PLANCK, CommandTest


class Completion(CommandTest):
    def needs(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed")

    def script(self, shell):
        text = self.succeed("completion", shell)
        for word in ("quantize", "dequantize", "per-group", "dry-run", "ops --names"):
            self.assertIn(word, text)
        return text

    def accepted_by(self, shell):
        subprocess.run([shell, "-n"], input=self.script(shell), text=True, check=True)

    def test_scripts(self):
        for shell in ("bash", "zsh", "fish"):
            self.script(shell)
        self.refuse("tcsh", "completion", "tcsh")

    def test_bash(self):
        self.accepted_by("bash")
        ask = (self.script("bash") + 'PATH=$(dirname "$PLANCK"):$PATH\n'
               "try() { COMP_WORDS=(planck \"$@\"); COMP_CWORD=$#; _planck; echo ${COMPREPLY[*]}; }\n"
               "try quan; try quantize --sch; try quantize --dtype s; try run quantize_per_g; try -\n"
               "touch 'two words.gguf' softly s9 insects; try inspect two; try help ins; try ops softm; try quantize --dtype s\n"
               "try completion ''; try bench --list ''\n")
        told = subprocess.run(["bash"], input=ask, capture_output=True, text=True, cwd=self.folder).stdout.splitlines()
        self.assertEqual(told[:3], ["quantize", "--scheme", "s8 s4"])
        self.assertEqual(told[3].split()[:2], ["quantize_per_group", "quantize_per_group_backward"])
        self.assertIn("--quiet", told[4])
        self.assertEqual(told[5:9], ["two words.gguf", "inspect", "softmax softmax_backward", "s8 s4"])  # and no files
        self.assertEqual(told[9].split()[-3:], ["bash", "zsh", "fish"])
        self.assertEqual(len(set(told[9].split())), len(told[9].split()))
        self.assertIn("softly", told[10])

    def test_zsh(self):
        """With stand-ins for what zsh gives a completion: the words typed, and compadd."""
        self.needs("zsh")
        self.accepted_by("zsh")
        ask = ("compdef() { :; }\ncompadd() { shift; print -r -- $*; }\n_files() { print files; }\n"
               'path=(${PLANCK:h} $path)\n' + self.script("zsh") +
               "try() { words=(planck $*); CURRENT=$#words; _planck; }\n"
               "try quantize --dtype s; try help ins; try quantize a\n")
        told = subprocess.run(["zsh", "-f"], input=ask, capture_output=True, text=True, check=True)
        self.assertEqual(told.stderr, "")
        self.assertEqual(told.stdout.splitlines()[0].split()[:4], ["s8", "u8", "s4", "u4"])
        self.assertIn("inspect", told.stdout.splitlines()[1].split())
        self.assertIn("--dtype", told.stdout.splitlines()[2].split())
        self.assertEqual(told.stdout.splitlines()[3:], ["files"])

    def test_fish(self):
        self.needs("fish")
        self.accepted_by("fish")
        for typed, want in [("planck quan", "quantize"), ("planck quantize --dtype q8", "q8_0"), ("planck help ins", "inspect")]:
            ask = self.script("fish") + f"complete -C '{typed}'\n"
            told = subprocess.run(["fish", "--no-config"], input=ask, capture_output=True, text=True, check=True, cwd=self.folder,
                                  env={**os.environ, "HOME": self.folder, "PATH": os.path.dirname(PLANCK) + ":" + os.environ["PATH"]})
            self.assertEqual([line.split("\t")[0] for line in told.stdout.splitlines()], [want], typed)


if __name__ == "__main__":
    done = unittest.main(exit=False).result
    for test, why in done.skipped:
        print(f"skipped: {test.id()}: {why}", file=sys.stderr)
    sys.exit(1 if not done.wasSuccessful() else SKIPPED if done.skipped else 0)
