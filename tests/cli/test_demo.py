"""demo, eval, predict: the same weights on any number of threads and after a kill, and clear refusals."""

import html
import json
import math
import os
import random
import re
import shlex
import signal
import statistics
import struct
import subprocess
import time
import unittest

import checkpoint
from command import PLANCK, CommandTest

SHORT = ["--epochs", "2", "--qat-epochs", "1"]
MODELS = ("model", "model-int8", "model-int4")


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
        rows = re.findall(r"^(?:float|after training|in training).* \d+\.\d\d %  +\d+\.\d\d to \d+\.\d\d .* \d+\.\d$", text, re.M)
        self.assertEqual(len(rows), 7, text)
        self.assertEqual(self.sha(self.demo("five", "--threads", "5")), one)
        if not os.environ.get("PLANCK_SANITIZE"):  # it takes minutes there
            self.assertEqual(self.sha(self.demo("baseline", "--cpu-target", "baseline")), one)
            exact = self.sha(self.demo("exact", "--math", "exact", "--threads", "1"))
            self.assertNotEqual(exact, one)
            self.assertEqual(self.sha(self.demo("exact2", "--math", "exact", "--cpu-target", "avx2")), exact)
            self.assertIn("exact", self.succeed("inspect", self.path("exact/model.safetensors"), "--json"))
        self.assertEqual(sorted(os.listdir(self.path("one"))),
                         [*(f"{model}.{form}" for model in ("model-int4", "model-int8")
                            for form in ("onnx", "qdq.onnx", "safetensors")), "model.safetensors", "report.html", "results.json"])
        for name in ("model-int4.onnx", "model-int8.qdq.onnx"):
            self.assertEqual(self.content(self.path("one/" + name)), self.content(self.path("five/" + name)))

        self.refuse("one/model.safetensors: exists; --force replaces it", "demo", "--out", self.path("one"), *SHORT)

        self.refuse_damaged(self.content(self.killed("killed")))
        self.name_what_broke(self.path("killed/checkpoint.safetensors"))
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

        self.runs_elsewhere("one")

        # And nothing else can.
        other = self.path("one/model.safetensors")
        self.refuse("not the checkpoint of a run", "demo", "--out", self.with_checkpoint("a", self.content(other)))
        with open(self.path("cut.safetensors"), "wb") as f:
            f.write(self.content(other)[:-100])
        self.refuse("the file holds", "eval", self.path("cut.safetensors"))
        self.refuse("from 0 to 359", "predict", other, "digits:360")
        npy(self.path("flat.npy"), (64,), "f", [0.5] * 64)
        self.refuse("images are [count, height, width]", "predict", other, self.path("flat.npy"))

    def runs_elsewhere(self, folder):
        """The integer models in ONNX Runtime, without its optimizations: our logits, to the bit where the picture that the
        spatial transformer shows is rounded to the same integers, and our answers."""
        with self.subTest("onnx"):
            try:
                import numpy as np
                import onnxruntime as ort
            except ImportError as why:
                self.skipTest(f"{why} (tests/cli/install_clients)")
            rng = np.random.default_rng(5)
            pictures = rng.random((40, 16, 16), np.float32) ** 3
            np.save(self.path("pictures.npy"), pictures)  # of the model's size: it is asked about these very pixels
            options = ort.SessionOptions()
            options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
            for model in ("model-int8", "model-int4"):
                at = self.path(f"{folder}/{model}.")
                answers = json.loads(self.succeed("predict", at + "safetensors", self.path("pictures.npy"), "--json"))
                ours = np.array([answer["logits"] for answer in answers], np.float32)
                for form, same in (("onnx", 0.5), ("qdq.onnx", 0)):
                    session = ort.InferenceSession(at + form, options, providers=["CPUExecutionProvider"])
                    theirs = session.run(None, {"input": pictures[:, None]})[0]
                    self.assertGreaterEqual((ours == theirs).all(1).mean(), same, (model, form))
                    self.assertGreaterEqual((ours.argmax(1) == theirs.argmax(1)).mean(), 0.95, (model, form))
                    self.assertLess(np.abs(ours - theirs).mean(), 0.01 * np.abs(ours).mean(), (model, form))

    def killed(self, folder, *options):
        """The checkpoint of a run that was killed after its first epoch."""
        running = subprocess.Popen([PLANCK, "demo", "--out", self.path(folder), *SHORT, *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        left = self.path(folder + "/checkpoint.safetensors")
        until = time.time() + 300
        while not os.path.exists(left) and running.poll() is None and time.time() < until:
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
        running.communicate()
        self.assertEqual(running.returncode, -signal.SIGKILL, "it ended before it was killed")
        return left

    def test_other_dtypes_have_one_hash_each(self):
        known = {}
        for dtype in ("bf16", "f16"):
            text = self.demo(dtype, "--dtype", dtype, "--threads", "1")
            self.assertIn("bit for bit: yes", text)
            known[dtype] = self.sha(text)
            self.assertEqual(self.sha(self.demo(dtype + "5", "--dtype", dtype, "--threads", "5")), known[dtype])
            for name in MODELS:  # and the files have one content, whoever made them when
                self.assertEqual(*[self.content(self.path(f"{f}/{name}.safetensors")) for f in (dtype, dtype + "5")])
            model = self.path(dtype + "/model.safetensors")
            tensors, metadata = checkpoint.read(model)
            self.assertEqual({t.dtype for t in tensors.values()}, {dtype.upper()})
            self.assertEqual(metadata["dtype"], dtype)
            j = json.loads(self.succeed("eval", model, "--json"))
            self.assertGreater(j["accuracy"], 0.2)
            seen = json.loads(self.succeed("predict", self.path(dtype + "/model-int8.safetensors"), "digits:3", "--json"))
            self.assertEqual(len(seen[0]["logits"]), 10)
            if not os.environ.get("PLANCK_SANITIZE"):
                self.killed(dtype + "k", "--dtype", dtype)
                self.refuse("belongs to another run", "demo", "--out", self.path(dtype + "k"), *SHORT)
                resumed = self.demo(dtype + "k", "--dtype", dtype)
                self.assertIn("Going on", resumed)
                self.assertEqual(self.sha(resumed), known[dtype])
        if not os.environ.get("PLANCK_SANITIZE"):
            known["f32"], known["f64"] = (self.sha(self.demo(d, "--dtype", d)) for d in ("f32", "f64"))
            self.assertEqual(self.sha(self.demo("left_out")), known["f32"])
        self.assertEqual(len(set(known.values())), len(known), known)

    def test_results_follow_from_the_counts_beside_them(self):
        text = self.succeed("demo", "--out", self.path("it's"), *SHORT, "--threads", "2", "--json", "-q")
        results = json.loads(text)
        with open(self.path("it's/results.json"), encoding="utf-8") as f:
            self.assertEqual(f.read(), text)
        made = results["made"]
        self.assertRegex(self.succeed("--version"), rf"^planck {re.escape(made['version'])}\b")
        self.assertEqual(shlex.split(made["command"])[1:], ["demo", "--out", self.path("it's"), *SHORT, "--threads", "2",
                                                            "--json", "-q"])
        self.assertRegex(made["date"], r"^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual((made["device"], made["threads"], made["workers"]), ("cpu", 2, 1))
        self.assertTrue(made["cpu"] and made["cores"] >= 1)
        self.assertIn(made["instruction_set"], ("avx512", "avx2", "baseline"))

        pictures, views = results["data"]["test"], results["data"]["views"]
        self.assertEqual((pictures, len(results["models"])), (360, 7))
        shares = []
        for m in results["models"]:
            right = m["right_views"]
            self.assertEqual(len(right), pictures)
            self.assertEqual([sum(right), pictures * views], [m["right"], m["answers"]])
            matrix = m["confusion"]
            self.assertEqual([len(row) for row in matrix], [10] * 10)
            self.assertEqual(sum(map(sum, matrix)), m["answers"])
            self.assertEqual(sum(matrix[i][i] for i in range(10)), m["right"])
            shares.append([r / views for r in right])
            self.check_interval(m, shares[-1])
        for m, share in zip(results["models"][1:], shares[1:]):
            self.check_comparison(m["against_float"], shares[0], share)
            gained, lost = m["against_float"]["gained"], m["against_float"]["lost"]
            self.assertEqual(gained - lost, m["right"] - results["models"][0]["right"])
        for dtype, after, within in (("s8", 2, 5), ("s4", 4, 6)):
            for i in (after, within):
                self.assertIn(f"training, {dtype} per channel", results["models"][i]["name"])
            c = results["in_training_against_after"][dtype]
            self.check_comparison(c, shares[after], shares[within])
            said = next(f for f in results["findings"] if f.startswith(f"{dtype} per channel"))
            self.assertIn(f"{c['better']} pictures are read better and {c['worse']} worse", said)
            self.assertIn(" beats " if c["beyond_error"] else "no difference beyond the error", said)
        times = results["layer_microseconds_per_image"]
        self.assertTrue(all(t > 0 for t in times.values()), times)
        for key in ("float_products", "s8_products", "s8_rounding"):
            self.assertIn(f"{times[key]:.1f}", results["findings"][-1])

        j = json.loads(self.succeed("eval", self.path("it's/model-int8.safetensors"), "--json"))
        self.assertEqual([j["accuracy"], j["interval"]], [results["models"][5][k] for k in ("accuracy", "interval")])
        with open(self.path("it's/report.html"), encoding="utf-8") as f:
            page = f.read()
        self.assertLess(len(page), 400_000)
        for part in ("<h2>Confusions</h2>", "<h2>Mistakes</h2>", "<h2>How it was made</h2>", made["command"], made["cpu"],
                     "planck " + made["version"], made["date"], *results["findings"], results["sha256"]):
            self.assertTrue(part in html.unescape(page), part)
        mistakes = page[page.index("<h2>Mistakes</h2>"):page.index("<h2>Weights</h2>")]
        self.assertEqual((mistakes.count("✗"), mistakes.count("✓")), (24, 0))

    def check_interval(self, model, shares):
        """Wilson's, for as many answers as have the error of the mean over pictures."""
        n, p, z = len(shares), statistics.fmean(shares), statistics.NormalDist().inv_cdf(0.975)
        error = statistics.stdev(shares) / n ** 0.5
        self.assertAlmostEqual(model["accuracy"], p)
        self.assertAlmostEqual(model["standard_error"], error)
        m = min(p * (1 - p) / error ** 2, model["answers"])
        for bound, sign in zip(model["interval"], (-1, 1)):  # where the score test of p against it gives z
            self.assertAlmostEqual((p - bound) / (bound * (1 - bound) / m) ** 0.5, -sign * z, 6)

    def check_comparison(self, c, before, after):
        differences = [b - a for a, b in zip(before, after)]
        self.assertAlmostEqual(c["difference"], statistics.fmean(differences))
        self.assertAlmostEqual(c["half_width"], statistics.NormalDist().inv_cdf(0.975) * statistics.stdev(differences) /
                               len(before) ** 0.5)
        better, worse = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
        self.assertEqual([c["better"], c["worse"]], [better, worse])
        n = better + worse
        p = min(1, 2 * sum(math.comb(n, k) for k in range(min(better, worse) + 1)) / 2 ** n)
        self.assertAlmostEqual(c["p"], p)
        self.assertEqual(c["beyond_error"], p < 0.05)

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

    def name_what_broke(self, good):
        """A loss that is no number ends the run: which picture, at which step. The checkpoint stays as it was."""
        tensors, metadata = checkpoint.read(good)
        weight = tensors["model.output.weight"]
        weight.data = checkpoint.pack(weight.dtype, [math.nan] + weight.values()[1:])
        os.mkdir(self.path("nan"))
        broken = self.path("nan/checkpoint.safetensors")
        checkpoint.write(broken, tensors, {"run": metadata["run"]})
        before = self.content(broken)
        done = self.run_planck("demo", "--out", self.path("nan"), *SHORT)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr.splitlines()[-1],
                         r"float, epoch 2, step 24: the loss of training picture \d+, which is a \d, is nan$")
        self.assertEqual(os.listdir(self.path("nan")), ["checkpoint.safetensors"])
        self.assertEqual(self.content(broken), before)

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
        self.refuse("--dtype is s8, must be f32, bf16, f16 or f64", "demo", "--dtype", "s8", "--out", self.path("d"))
        self.refuse("--dtype is float, must be", "demo", "--dtype", "float", "--out", self.path("d"))
        for dtype, math_ in (("bf16", "exact"), ("f64", "tensor_core")):
            self.refuse(f"--math is {math_}, which products of {dtype}", "demo", "--dtype", dtype, "--math", math_, "--out",
                        self.path("d"))
        self.assertFalse(os.path.exists(self.path("d")))
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
