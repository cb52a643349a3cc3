"""Runs the planck binary named by $PLANCK in a folder of its own."""

import os
import subprocess
import tempfile
import unittest

import checkpoint

PLANCK = os.environ["PLANCK"]


class CommandTest(unittest.TestCase):
    def setUp(self):
        self._folder = tempfile.TemporaryDirectory(prefix="planck-cli-")
        self.folder = self._folder.name
        self.addCleanup(self._folder.cleanup)

    def path(self, name):
        return os.path.join(self.folder, name)

    def names(self):
        return sorted(os.listdir(self.folder))

    def run_planck(self, *arguments, **options):
        return subprocess.run([PLANCK, *arguments], capture_output=True, text=True, timeout=600, **options)

    def succeed(self, *arguments, **options):
        done = self.run_planck(*arguments, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def refuse(self, says, *arguments, **options):
        """Exit code 2, one line on standard error that says so, nothing on standard output."""
        done = self.run_planck(*arguments, **options)
        self.assertEqual(done.returncode, 2, (arguments, done.stdout, done.stderr))
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("planck"), done.stderr)
        self.assertIn(says, done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def _run_arguments(self, op, tensors, settings):
        checkpoint.write(self.path("in"), tensors)
        sets = ["--set", *settings] if settings else []
        return ["run", op, "--in", self.path("in"), "--out", self.path("out"), "--force", *sets]

    def run_op(self, op, tensors, *settings):
        """`planck run` on these tensors: the values of every output."""
        self.succeed(*self._run_arguments(op, tensors, settings))
        return {name: t.values() for name, t in checkpoint.read(self.path("out"))[0].items()}

    def gradients(self, op, tensors, *settings):
        """The values of every output and of every gradient."""
        self.succeed(*self._run_arguments(op, tensors, settings), "--grad")
        return {name: t.values() for name, t in checkpoint.read(self.path("out"))[0].items()}

    def refuse_op(self, says, op, tensors, *settings):
        return self.refuse(says, *self._run_arguments(op, tensors, settings))
