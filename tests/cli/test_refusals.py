"""Bad input of every kind: exit code 2, one clear line, nothing left behind."""

import json
import os
import resource
import shutil
import subprocess
import unittest

import checkpoint
from checkpoint import Tensor, raw_file
from command import PLANCK, CommandTest


def entry(**fields):
    return json.dumps({"t": fields})


MALFORMED = {
    "empty": (b"", "the file is empty"),
    "short": (b"\x02\0\0", "the file has 3 bytes"),
    "absurd length": (b"\xff" * 64, "header length is 18446744073709551615"),
    "length past the end": (raw_file("{}", length=50), "header length is 50, the file has 2 bytes after it"),
    "not JSON": (raw_file("{'t'}"), "not valid JSON at byte"),
    "not UTF-8": (raw_file(b'{"\xff":{}}'), "not valid JSON at byte"),
    "wrong type": (raw_file(entry(dtype=1)), "dtype is a number, must be a string"),
    "unknown dtype": (raw_file(entry(dtype="F\n3", shape=[], data_offsets=[0, 4]), b"1234"), "not a dtype"),
    "negative extent": (raw_file(entry(dtype="F32", shape=[-1], data_offsets=[0, 4]), b"1234"), "negative number -1"),
    "overflow": (raw_file(entry(dtype="F32", shape=[2 ** 40, 2 ** 40], data_offsets=[0, 4]), b"1234"), "more bits than"),
    "shape lies": (raw_file(entry(dtype="F32", shape=[2], data_offsets=[0, 4]), b"1234"), "F32 of shape [2] needs 8"),
    "past the end": (raw_file(entry(dtype="F32", shape=[2], data_offsets=[0, 8]), b"1234"), "the file holds 4 bytes"),
    "trailing bytes": (raw_file(entry(dtype="U8", shape=[2], data_offsets=[0, 2]), b"1234"), "the file holds 4 bytes"),
    "hole": (raw_file(entry(dtype="U8", shape=[2], data_offsets=[2, 4]), b"1234"), "a hole after byte 0"),
    "duplicate": (raw_file('{"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},'
                           '"t":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}'), "occurs twice"),
}


class MalformedFiles(CommandTest):
    def test_every_command_refuses_every_file(self):
        for name, (content, says) in MALFORMED.items():
            with open(self.path("bad"), "wb") as f:
                f.write(content)
            for arguments in (["inspect"], ["quantize", "-o", self.path("out")], ["dequantize", "-o", self.path("out")]):
                with self.subTest(name, command=arguments[0]):
                    line = self.refuse(says, arguments[0], self.path("bad"), *arguments[1:])
                    self.assertIn(self.path("bad"), line)
                    self.assertEqual(self.names(), ["bad"])

    def test_what_is_not_a_file(self):
        os.mkfifo(self.path("pipe"))
        self.refuse("No such file or directory", "inspect", self.path("absent"))
        self.refuse("the folder has no .safetensors, .gguf, .pt, .bin or .npy file", "inspect", self.folder)
        self.refuse("is a device or a pipe", "inspect", self.path("pipe"))
        self.refuse("is a device or a pipe", "inspect", "/dev/zero")


class LyingMetadata(CommandTest):
    GOOD = {"scheme": "per_channel", "axis": 0, "dtype": "s8", "q_min": -128, "q_max": 127, "symmetric": True,
            "original_dtype": "F32", "original_shape": [2, 4]}

    def write(self, text, version="1", **changes):
        tensors = {"w": Tensor("I8", [2, 4], range(8)), "w.scale": Tensor("F32", [2], [1, 2]),
                   "w.zero_point": Tensor("I32", [2], [0, 0]), **changes}
        metadata = {"planck.quantized": version, "planck.quantized:w": text}
        checkpoint.write(self.path("in"), {k: v for k, v in tensors.items() if v},
                         {k: v for k, v in metadata.items() if v is not None})

    def test_the_good_one_is_accepted(self):
        self.write(json.dumps(self.GOOD))
        self.succeed("dequantize", self.path("in"), "-o", self.path("out"))
        self.assertEqual(checkpoint.read(self.path("out"))[0]["w"].values(), [0, 1, 2, 3, 8, 10, 12, 14])

    def test_the_others_are_refused(self):
        cases = {
            "version": (dict(version="3"), {}, 'is "3", this program reads versions 1 and 2'),
            "no version": (dict(version=None), {}, "is missing, this program reads versions 1 and 2"),
            "no scale": ({"w.scale": None}, {}, 'there is no tensor "w.scale"'),
            "no integers": ({"w": None}, {}, 'there is no tensor "w"'),
            "short scale": ({"w.scale": Tensor("F32", [1], [1])}, {}, '"w.scale" is F32 [1], the scheme says F32 [2]'),
            "wrong dtype": ({"w": Tensor("U8", [2, 4], range(8))}, {}, '"w" is U8 [2, 4], the scheme says I8 [2, 4]'),
            "wrong scale dtype": ({}, {"original_dtype": "F64"}, '"w.scale" is F32 [2], the scheme says F64 [2]'),
            "integers as original": ({}, {"original_dtype": "I8"}, "original_dtype is"),
            "wrong shape": ({}, {"original_shape": [2, 5]}, "the scheme says I8 [2, 5]"),
            "negative shape": ({}, {"original_shape": [-2, 4]}, "original_shape does not hold whole numbers"),
            "endless shape": ({}, {"original_shape": [2 ** 62, 4]}, "more elements than fit"),
            "rank 9": ({}, {"original_shape": [1] * 9}, "at most 8 extents"),
            "scheme": ({}, {"scheme": "per_row"}, 'scheme is "per_row"'),
            "axis": ({}, {"axis": 2}, "axis is 2"),
            "far axis": ({}, {"axis": 2 ** 40}, "axis is 1099511627776"),
            "group of nothing": ({}, {"scheme": "per_group", "group": 0}, "group is 0"),
            "no group": ({}, {"scheme": "per_group"}, "group is -1"),
            "dtype": ({}, {"dtype": "f32"}, 'dtype is "f32"'),
            "range beyond the dtype": ({}, {"q_min": -200}, "q_min and q_max are -200 and 127, s8 holds -128 to 127"),
            "empty range": ({}, {"q_min": 5, "q_max": 4}, "q_min and q_max are 5 and 4"),
            "huge range": ({}, {"q_max": 2 ** 32 + 100}, "q_min and q_max are -128 and 4294967396"),
        }
        for name, (changes, fields, says) in cases.items():
            with self.subTest(name):
                self.write(json.dumps({**self.GOOD, **fields}), **changes)
                self.refuse(says, "dequantize", self.path("in"), "-o", self.path("out"))
                self.refuse(says, "inspect", self.path("in"))
                self.assertEqual(self.names(), ["in"])
        for text in ["", "{", "[]", "null", '"x"', "{}"]:
            self.write(text)
            self.refuse("metadata of tensor", "dequantize", self.path("in"), "-o", self.path("out"))

    def test_what_was_never_quantized(self):
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [1], [1])})
        self.refuse("is not quantized", "dequantize", self.path("in"), "-o", self.path("out"))


class BadArguments(CommandTest):
    def setUp(self):
        super().setUp()
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [8, 16], range(128))})

    def test_arguments(self):
        here, out = self.path("in"), self.path("out")
        cases = [
            ([], "a command is required"),
            (["quantise"], "no command is called quantise (did you mean quantize?); there are: "),
            (["--loud"], "--loud"),
            (["inspect"], "file is required"),
            (["inspect", here, "--loud"], "--loud"),
            (["quantize", here], "--output is required"),
            (["quantize", here, "-o", out, "--scheme", "per-row"], "per-row"),
            (["quantize", here, "-o", out, "--dtype", "s5"], "s5"),
            (["quantize", here, "-o", out, "--format", "onnx"], "--format: onnx files are models, and a checkpoint has no graph; nn::OnnxModel "),
            (["quantize", here, "-o", out, "--group", "0"], "--group"),
            (["quantize", here, "-o", out, "--axis", "x"], "--axis"),
            (["quantize", here, "-o", out, "--axis", "5"], "no tensor can be quantized"),
            (["quantize", here, "-o", out, "--symmetric", "--affine"], "--affine"),
            (["quantize", here, "-o", out, "--include", "("], "--include ( is not a regular expression"),
            (["quantize", here, "-o", out, "--include", "nothing"], "--include nothing matches no name"),
            (["quantize", here, "-o", out, "--exclude", "nothing"], "--exclude nothing matches no name"),
            (["quantize", here, "-o", out, "--include", ""], "--include is empty"),
            (["quantize", here, "-o", out, "--exclude", ""], "--exclude is empty"),
            (["quantize", here, "-o", out, "--exclude", "w"], "no tensor can be quantized"),
            (["quantize", here, "-o", out, "--device", "tpu"], "--device is tpu, must be cpu, cuda or cuda:N"),
            (["quantize", here, "-o", out, "--device", "cuda:99"], "no CUDA device"),
            (["quantize", here, "-o", out, "--threads", "-1"], "--threads"),
            (["quantize", here, "-o", self.path("absent/out")], "cannot create: No such file or directory"),
            (["quantize", here, "-o", self.folder], "is a directory"),
            (["quantize", here, "-o", "/dev/null"], "is a device or a pipe"),
            (["quantize", here, "-o", ""], ""),
            (["demo", "--out", here], "cannot create"),
        ]
        for arguments, says in cases:
            with self.subTest(arguments=arguments):
                self.refuse(says, *arguments)
                self.assertEqual(self.names(), ["in"])

    def test_help_of_every_command(self):
        top = self.succeed("--help")
        commands = [line.split()[0] for line in top.split("Subcommands:")[1].split("Examples:")[0].strip().splitlines()]
        for wanted in ["quantize", "dequantize", "inspect", "demo"]:
            self.assertIn(wanted, commands)
        for command in commands:
            text = self.succeed(command, "--help")
            self.assertIn("Example", text, command)
            self.assertIn("Usage: planck " + command, text)
        self.assertRegex(self.succeed("--version"), r"^planck \d+\.\d+\.\d+, (CUDA kernels for \w.*|without CUDA kernels)\n$")

    def test_standard_output_that_takes_nothing(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PLANCK, "inspect", self.path("in")], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


class FullDisk(CommandTest):
    def setUp(self):
        super().setUp()
        checkpoint.write(self.path("in"), {"w": Tensor("F32", [256, 256], [0.5] * 65536)})

    def test_file_size_limit(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (10000, 10000))

        for command, source in (("quantize", "in"), ("dequantize", "q")):
            if command == "dequantize":
                self.succeed("quantize", self.path("in"), "-o", self.path("q"))
            before = self.names()
            line = self.refuse("cannot write: File too large", command, self.path(source), "-o", self.path("out"),
                               preexec_fn=limit)
            self.assertIn(self.path("out"), line)
            self.assertEqual(self.names(), before)

    def test_no_space_left(self):
        disk = self.path("disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", disk], capture_output=True).returncode:
            self.skipTest("cannot mount a small file system here")
        try:
            with open(os.path.join(disk, "out"), "w") as f:
                f.write("the old one")
            self.refuse("cannot write: No space left on device", "quantize", self.path("in"), "-o",
                        os.path.join(disk, "out"), "--force")
            self.assertEqual(os.listdir(disk), ["out"])
            with open(os.path.join(disk, "out")) as f:
                self.assertEqual(f.read(), "the old one")
        finally:
            subprocess.run(["umount", disk], check=True)

    def test_no_permission(self):
        os.mkdir(self.path("closed"), 0o500)
        binary, user = PLANCK, {}
        if os.geteuid() == 0:  # as somebody else, who may not look into the folder we were built in
            os.chmod(self.folder, 0o755)
            binary = shutil.copy(PLANCK, self.path("planck"))
            user = {"user": 65534, "group": 65534}
        done = subprocess.run([binary, "quantize", self.path("in"), "-o", self.path("closed/out")], capture_output=True,
                              text=True, timeout=600, **user)
        self.assertEqual(done.returncode, 2, done)
        self.assertIn("Permission denied", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1)



class Filters(CommandTest):
    def test_a_filter_that_matches_nothing_is_refused(self):
        for command in ("verify", "bench"):
            self.refuse("--filter zzz matches none", command, "--filter", "zzz")
        self.refuse("--filter zzz matches none", "verify", "--only-values", "--filter", "zzz")

class DtypesWithoutAKernel(CommandTest):
    def test_comparing_booleans_is_refused(self):
        tensors = {name: Tensor("BOOL", [2], [True, False]) for name in "ab"}
        for op in ("eq", "ne", "lt", "le", "gt", "ge"):
            self.refuse_op(f"{op}: dtype is bool, must be one of f64, f32", op, tensors)


if __name__ == "__main__":
    unittest.main()
