"""planck run: one grammar for every op, inputs at any address, ops that only move elements."""

import unittest

import checkpoint
from checkpoint import Tensor
from command import CommandTest

MATRIX = Tensor("F32", [2, 3], [0, 1, 2, 3, 4, 5])


def tensor(shape, values, dtype="F32"):
    return Tensor(dtype, shape, values)


class Grammar(CommandTest):
    def test_axes_count_from_the_end_everywhere(self):
        self.assertEqual(self.run_op("softmax", {"x": MATRIX}, "axis=-2"), self.run_op("softmax", {"x": MATRIX}, "axis=0"))
        self.assertEqual(self.run_op("cumsum", {"x": MATRIX}, "axes=-1")["out"], [0, 1, 3, 3, 7, 12])
        self.assertEqual(self.run_op("sum", {"x": MATRIX}, "axes=-1")["out"], [3, 12])
        self.assertEqual(self.run_op("sum", {"x": MATRIX}, "axes=0,-1")["out"], [15])
        scale = {"scale": tensor([3], [1, 1, 2]), "zero_point": tensor([3], [0] * 3, "I32")}
        self.assertEqual(self.run_op("quantize_per_channel", {"x": MATRIX, **scale}, "axis=-1")["q"], [0, 1, 1, 3, 4, 2])
        for op, attribute in [("softmax", "axis"), ("sum", "axes"), ("cumsum", "axes"), ("sort", "axis")]:
            for axis in ("2", "-3"):
                self.refuse_op("the shape has 2 axes", op, {"x": MATRIX}, f"{attribute}={axis}")
        self.refuse_op("comes twice", "sum", {"x": MATRIX}, "axes=1,-1")

    def test_pairs_and_lists_are_written_with_x_or_comma(self):
        image = tensor([1, 1, 4, 4], range(16))
        weight = tensor([1, 1, 2, 1], [1, 1])
        for pair in ("2x1", "2,1"):
            self.assertEqual(self.run_op("conv2d", {"x": image, "weight": weight}, "stride=" + pair)["y"],
                             [4, 6, 8, 10, 20, 22, 24, 26])
            self.assertEqual(self.run_op("max_pool2d", {"x": image}, "kernel=" + pair)["y"], [4, 5, 6, 7, 12, 13, 14, 15])
        theta = tensor([1, 2, 3], [1, 0, 0, 0, 1, 0])
        self.assertEqual(self.run_op("affine_grid", {"theta": theta}, "size=1x1x2x2"),
                         self.run_op("affine_grid", {"theta": theta}, "size=1,1,2,2"))
        self.assertEqual(self.run_op("fill", {}, "shape=2,2", "value=3"), self.run_op("fill", {}, "shape=2x2", "value=3"))

    def test_numbers_are_read_strictly(self):
        image = {"dy": tensor([1, 1, 1, 1], [1]), "weight": tensor([1, 1, 1, 1], [1])}
        for size in ("012345678", "+1", " 1", "1 ", "1.0", "1x", "x1", "1x1x1", "1x1,1", "", "-0"):
            self.refuse_op("size=", "conv2d_input", image, "size=" + size)
        for value in ("0x10", "1e", ".5", "1,5", "01", "infinity", "NAN", "1e999", "--1"):
            self.refuse_op("is not a number", "add_scalar", {"x": MATRIX}, "value=" + value)
        for shape in ("02", "2x-1", "99999999999999999999", "1x1x1x1x1x1x1x1x1"):
            self.refuse_op("fill: ", "fill", {}, "shape=" + shape)
        checkpoint.write(self.path("in"), {"w": MATRIX})
        for option, value in [("--threads", "0x2"), ("--threads", "02"), ("--axis", "1e0"), ("--group", "+4"),
                              ("--min-rank", "1.0")]:
            self.refuse(option, "quantize", self.path("in"), "-o", self.path("q"), option, value)
        self.refuse("--min-time", "bench", "--min-time", "0x1p4")

    def test_a_result_that_fits_nowhere_is_refused_before_it_is_made(self):
        for op, settings in [("fill", ["shape=4294967296x65536"]), ("arange", ["shape=4294967296x65536"])]:
            self.refuse_op("this machine has", op, {}, *settings)
        for op, settings in [("expand", ["shape=4294967296x65536x2x3"]), ("pad", ["before=0,4294967296", "after=70000,0"]),
                             ("repeat", ["counts=4294967296,65536"])]:
            self.refuse_op("this machine has", op, {"x": MATRIX}, *settings)

    def test_inputs_broadcast_where_the_op_does(self):
        self.assertEqual(self.run_op("add", {"a": MATRIX, "b": tensor([3], [10, 20, 30])})["y"], [10, 21, 32, 13, 24, 35])
        self.assertEqual(self.run_op("add", {"a": tensor([], [1]), "b": MATRIX})["y"], [1, 2, 3, 4, 5, 6])
        out = self.run_op("where", {"condition": tensor([2, 1], [1, 0], "BOOL"), "a": MATRIX, "b": tensor([1], [-1])})
        self.assertEqual(out["y"], [0, 1, 2, -1, -1, -1])
        out = self.run_op("matmul", {"a": tensor([2, 1, 3], range(6)), "b": tensor([3, 1], [1, 1, 1])})
        self.assertEqual(out["c"], [3, 12])
        self.refuse_op("shapes [2, 3] and [2] do not broadcast", "add", {"a": MATRIX, "b": tensor([2], [1, 2])})
        self.refuse_op("scale has 1 elements", "quantize_per_channel", {
            "x": MATRIX, "scale": tensor([1], [1]), "zero_point": tensor([1], [0], "I32")})

    def test_an_index_out_of_range_is_what_the_formula_says(self):
        index = tensor([2, 1], [1, 9], "I64")
        out = self.run_op("gather", {"x": MATRIX, "index": index}, "axis=1")
        self.assertEqual((out["out"], out["bad_indices"]), ([1, 0], [1]))
        out = self.run_op("index_select", {"x": MATRIX, "index": tensor([2], [-4, 1], "I32")})
        self.assertEqual((out["out"], out["bad_indices"]), ([0, 0, 0, 3, 4, 5], [1]))
        out = self.run_op("scatter_add", {"x": MATRIX, "index": index, "source": tensor([2, 1], [10, 20])}, "axis=1")
        self.assertEqual((out["out"], out["bad_indices"]), ([0, 11, 2, 3, 4, 5], [1]))
        self.assertIn("0 where the index is out of range", self.succeed("run", "--list", "gather"))

    def test_gradients_of_scales_have_the_shape_of_scales(self):
        for shape in ([2], [2, 1], [1, 2, 1]):
            tensors = {"dy": MATRIX, "x": tensor([2, 3], [1, 2, 300, 4, 5, 6]), "scale": tensor(shape, [1, 1]),
                       "zero_point": tensor(shape, [0, 0], "I32")}
            self.run_op("fake_quantize_per_channel_backward", tensors, "learnable=true")
            out = checkpoint.read(self.path("out"))[0]
            self.assertEqual((out["dscale"].shape, out["dzero_point"].shape), (shape, shape))
            self.assertEqual(out["dscale"].values(), [2 * 127, 0])

    def test_integer_and_boolean_results(self):
        def dtype_of(op, tensors, *settings):
            self.run_op(op, tensors, *settings)
            return {n: t.dtype for n, t in checkpoint.read(self.path("out"))[0].items()}
        self.assertEqual(dtype_of("eq", {"a": MATRIX, "b": MATRIX}), {"y": "BOOL"})
        self.assertEqual(dtype_of("argmax", {"x": MATRIX}, "axes=-1"), {"out": "I64"})
        self.assertEqual(dtype_of("sum", {"x": tensor([2], [1, 2], "I32")}), {"out": "I32"})
        self.assertEqual(dtype_of("cast", {"x": MATRIX}, "dtype=bool"), {"y": "BOOL"})
        self.assertEqual(dtype_of("max_pool2d", {"x": tensor([2, 2], range(4))}, "kernel=2"), {"y": "F32", "indices": "I32"})
        self.assertEqual(dtype_of("nonzero", {"mask": tensor([2], [0, 1], "BOOL")}), {"positions": "I64", "count": "I64"})
        out = self.run_op("matmul", {"a": tensor([1, 2], [100, 100], "I8"), "b": tensor([2, 1], [100, 100], "I8")})
        self.assertEqual(out["c"], [20000])

    def test_truth_values_are_0_or_1_whatever_the_byte(self):
        for data in ([0, 2, 0], [0x80, 0, 0], [255, 3, 7], [0, 0, 0], [1, 1, 1]):
            x = Tensor("BOOL", [3], data=bytes(data))
            for op, want in (("any", any(data)), ("all", all(data))):
                self.run_op(op, {"x": x})
                self.assertEqual(checkpoint.read(self.path("out"))[0]["out"].data, bytes([want]), (op, data))


class Files(CommandTest):
    def test_tensors_at_any_address(self):
        """The format asks for no alignment, and other readers take what has none."""
        for name in ("b", "by", "byt", "byte"):
            checkpoint.write(self.path("in"), {"x0": tensor([1], [7], "U8"), name: MATRIX}, pad=False)
            self.refuse("no input is called", "run", "exp", "--in", self.path("in"), "--out", self.path("out"))
        for pad in ("", "x", "xx", "xxx"):
            checkpoint.write(self.path("in"), {"mask": tensor([1], [1], "BOOL"), "x": tensor([2, 3], range(6), "F64")},
                             {"pad": pad}, pad=False)
            self.succeed("run", "mask_fill", "--in", self.path("in"), "--out", self.path("out"), "--force", "--set", "value=4")
            self.assertEqual(checkpoint.read(self.path("out"))[0]["y"].values(), [4] * 6)
            self.succeed("run", "mask_fill", "--in", self.path("in"), "--out", self.path("out"), "--force", "--grad")

    def test_an_output_is_not_lost(self):
        checkpoint.write(self.path("in"), {"x": MATRIX})
        self.refuse("is the input", "run", "exp", "--in", self.path("in"), "--out", self.path("in"), "--force")
        self.succeed("run", "exp", "--in", self.path("in"), "--out", self.path("out"))
        self.refuse("exists; --force replaces it", "run", "exp", "--in", self.path("in"), "--out", self.path("out"))


class Shapes(CommandTest):
    def test_every_shape_op(self):
        x = {"x": MATRIX}
        self.assertEqual(self.run_op("reshape", x, "shape=3x-1")["y"], [0, 1, 2, 3, 4, 5])
        self.assertEqual(checkpoint.read(self.path("out"))[0]["y"].shape, [3, 2])
        self.assertEqual(self.run_op("permute", x, "axes=-1,0")["y"], [0, 3, 1, 4, 2, 5])
        self.assertEqual(self.run_op("expand", {"x": tensor([2, 1], [1, 2])}, "shape=2x2")["y"], [1, 1, 2, 2])
        self.assertEqual(self.run_op("slice", x, "axis=-1", "start=-1", "step=-2")["y"], [2, 0, 5, 3])
        self.assertEqual(self.run_op("slice", x, "axis=0", "stop=1")["y"], [0, 1, 2])
        self.assertEqual(self.run_op("slice_assign", {**x, "values": tensor([1, 3], [7, 8, 9])}, "stop=1")["y"],
                         [7, 8, 9, 3, 4, 5])
        self.assertEqual(self.run_op("flip", x)["y"], [5, 4, 3, 2, 1, 0])
        self.assertEqual(self.run_op("flip", x, "axes=-1")["y"], [2, 1, 0, 5, 4, 3])
        self.assertEqual(self.run_op("cat", {"x0": MATRIX, "x1": tensor([2, 1], [8, 9])}, "axis=1")["y"],
                         [0, 1, 2, 8, 3, 4, 5, 9])
        self.assertEqual(self.run_op("cat", {f"x{i}": tensor([1], [i]) for i in range(12)})["y"], list(range(12)))
        self.assertEqual(self.run_op("stack", {"x0": tensor([2], [1, 2]), "x1": tensor([2], [3, 4])}, "axis=-1")["y"],
                         [1, 3, 2, 4])
        self.assertEqual(self.run_op("split", x, "sizes=1,2", "axis=1"), {"y0": [0, 3], "y1": [1, 2, 4, 5]})
        self.assertEqual(self.run_op("pad", x, "before=0,1", "after=0,-1", "value=9")["y"], [9, 0, 1, 9, 3, 4])
        self.assertEqual(self.run_op("repeat", {"x": tensor([2], [1, 2])}, "counts=2")["y"], [1, 2, 1, 2])

    def test_of_every_dtype(self):
        for dtype in ("F64", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL"):
            x = tensor([2, 2], [1, 0, 1, 1], dtype)
            for op, settings in [("permute", ["axes=1,0"]), ("pad", ["before=1,0"]), ("slice", ["start=1"])]:
                self.run_op(op, {"x": x}, *settings)
                y = checkpoint.read(self.path("out"))[0]["y"]
                self.assertEqual(y.dtype, dtype)
            self.assertEqual(y.values(), [1, 1])
            self.assertEqual(self.run_op("cat", {"x0": x, "x1": x})["y"], [1, 0, 1, 1] * 2)

    def test_refuses_in_one_line(self):
        self.refuse_op("no attribute is called shap (did you mean shape?); it has: ", "reshape", {"x": MATRIX}, "shap=6")
        self.refuse_op("input x is missing", "reshape", {}, "shape=6")
        self.refuse_op("no input is called y", "reshape", {"x": MATRIX, "y": MATRIX}, "shape=6")
        self.refuse_op("input x1 is missing", "cat", {"x0": MATRIX, "x2": MATRIX})
        self.refuse_op("cat: x1 is i32, x0 is f32: must be the same", "cat",
                       {"x0": MATRIX, "x1": tensor([1, 3], [1, 2, 3], "I32")})
        self.refuse_op("the sizes add up to 2", "split", {"x": MATRIX}, "sizes=1,1", "axis=1")
        self.refuse_op("axis is 2", "slice", {"x": MATRIX}, "axis=2")
        self.refuse_op("start=a is not a whole number", "slice", {"x": MATRIX}, "start=a")
        self.refuse_op("reshape: ", "reshape", {"x": MATRIX}, "shape=4")
        for op, setting in [("reshape", "shape=4294967296x4294967296x2"), ("pad", "before=0,9223372036854775807"),
                            ("split", "sizes=1,9223372036854775807"), ("repeat", "counts=9223372036854775807,2"),
                            ("expand", "shape=1099511627777x2x3"), ("slice", "step=0")]:
            self.refuse_op(op + ": ", op, {"x": MATRIX}, setting)
        self.assertNotIn("out", self.names())

    def test_a_file_without_tensors_is_refused(self):
        for op in ("cat", "stack"):
            for grad in ([], ["--grad"]):
                self.refuse(op + ": input x0 is missing; 0 are given", *self._run_arguments(op, {}, []), *grad)

    def test_inputs_of_several_dtypes_are_refused(self):
        """Nothing is read as another dtype: not floats as integers, not bytes as truth values."""
        dtypes = ("F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL")
        for a in dtypes:
            for b in dtypes:
                x, y = tensor([2, 2], [1, 0, 1, 1], a), tensor([2, 2], [1, 1, 0, 1], b)
                for op, tensors, names in [("cat", {"x0": x, "x1": y}, ("x1", "x0")), ("stack", {"x0": x, "x1": y}, ("x1", "x0")),
                                           ("slice_assign", {"x": x, "values": y}, ("values", "x"))]:
                    if a == b:
                        self.run_op(op, tensors)
                        self.assertEqual(checkpoint.read(self.path("out"))[0]["y"].dtype, a)
                    else:
                        text = self.refuse_op(f"{op}: {names[0]} is ", op, tensors)
                        self.assertIn(f", {names[1]} is ", text)
                        self.assertIn("must be the same", text)

    def test_truth_values_are_padded_with_truth_values(self):
        x = {"x": tensor([2], [1, 0], "BOOL")}
        self.run_op("pad", x, "before=1", "after=1", "value=1")
        self.assertEqual(checkpoint.read(self.path("out"))[0]["y"].data, bytes([1, 1, 0, 1]))
        for value in ("7", "-1", "0.5", "nan"):
            self.refuse_op(f"pad: value={value}, a truth value is 0 or 1", "pad", x, "before=1", "value=" + value)


if __name__ == "__main__":
    unittest.main()
