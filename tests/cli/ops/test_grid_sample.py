"""planck run on the grid_sample ops, as their users run them."""

import unittest

from checkpoint import Tensor
from command import CommandTest

IMAGE = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]  # three rows of two
FAR = [-10, -10, -5, -5, -0.5, -0.5, 10, 10]


class GridSample(CommandTest):
    def test_forward(self):
        for dtype in ("F32", "F64", "F16", "BF16"):
            tensors = {"input": Tensor(dtype, [1, 1, 3, 2], IMAGE), "grid": Tensor(dtype, [1, 1, 4, 2], FAR)}
            expected = {"zeros": [0, 0, 0.5, 0], "border": [0, 0, 0.5, 5], "reflection": [2.5, 0, 0.5, 2.5]}
            for padding, values in expected.items():
                out = self.run_op("grid_sample", tensors, "mode=bilinear", f"padding={padding}", "align_corners=false")
                self.assertEqual(out["output"], values)
            self.assertEqual(self.run_op("grid_sample", tensors, "mode=nearest")["output"], [0, 0, 0, 0])
            out = self.run_op("grid_sample", tensors, "mode=bicubic", "padding=border", "align_corners=true")
            self.assertEqual(out["output"][3], 5)

    def test_volume(self):
        tensors = {"input": Tensor("F32", [1, 1, 2, 2, 2], list(range(8))),
                   "grid": Tensor("F32", [1, 1, 1, 2, 3], [0, 0, 0, 1, -1, 1])}
        self.assertEqual(self.run_op("grid_sample", tensors, "align_corners=true")["output"], [3.5, 5])

    def test_backward(self):
        tensors = {"dout": Tensor("F32", [1, 1, 1, 2], [4, 8]), "input": Tensor("F32", [1, 1, 2, 2], [1, 2, 3, 4]),
                   "grid": Tensor("F32", [1, 1, 2, 2], [0, 0, -0.5, -0.5])}
        out = self.run_op("grid_sample_backward", tensors)
        self.assertEqual(out["dinput"], [9, 1, 1, 1])
        self.assertEqual(out["dgrid"], [4, 8, 8, 16])
        tensors["dinput"] = Tensor("F32", [1, 1, 2, 2], [10, 20, 30, 40])
        out = self.run_op("grid_sample_backward", tensors, "accumulate=true")
        self.assertEqual(out["dinput"], [19, 21, 31, 41])
        self.assertEqual(out["dgrid"], [4, 8, 8, 16])
        tensors["dgrid"] = Tensor("F32", [1, 1, 2, 2], [1, 2, 3, 4])
        out = self.run_op("grid_sample_backward", tensors, "accumulate=true")
        self.assertEqual(out["dgrid"], [5, 10, 11, 20])

    def test_affine_grid(self):
        theta = {"theta": Tensor("F32", [1, 2, 3], [1, 0, 0.5, 0, 1, 0])}
        out = self.run_op("affine_grid", theta, "size=1,3,2,2", "align_corners=false")
        self.assertEqual(out["grid"], [0, -0.5, 1, -0.5, 0, 0.5, 1, 0.5])
        dgrid = {"dgrid": Tensor("F32", [1, 2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8])}
        out = self.run_op("affine_grid_backward", dgrid, "align_corners=true")
        self.assertEqual(out["dtheta"], [4, 8, 16, 4, 8, 20])

    def test_refuses_in_one_line(self):
        tensors = {"input": Tensor("F32", [1, 1, 3, 2], IMAGE), "grid": Tensor("F32", [1, 1, 4, 2], FAR)}
        self.refuse_op("mode=cubic is not bilinear, nearest or bicubic", "grid_sample", tensors, "mode=cubic")
        self.refuse_op("padding=wrap is not zeros, border or reflection", "grid_sample", tensors, "padding=wrap")
        self.refuse_op("align_corners=maybe", "grid_sample", tensors, "align_corners=maybe")
        gradient = {**tensors, "dout": Tensor("F32", [1, 1, 1, 4], [0] * 4)}
        self.refuse_op("adds to dinput and dgrid, neither of which is given", "grid_sample_backward", gradient, "accumulate=true")
        gradient["dout"] = Tensor("F32", [1, 1, 4, 1], [0] * 4)
        self.refuse_op("dout has shape [1, 1, 4, 1]", "grid_sample_backward", gradient)
        tensors["grid"] = Tensor("F64", [1, 1, 4, 2], FAR)
        self.refuse_op("grid is f64, must be f32", "grid_sample", tensors)
        tensors["grid"] = Tensor("F32", [1, 2, 4], FAR)
        self.refuse_op("grid has shape [1, 2, 4]", "grid_sample", tensors)
        theta = {"theta": Tensor("F32", [1, 2, 3], [0] * 6)}
        self.refuse_op("size=1,2, is not N,C,H,W", "affine_grid", theta, "size=1,2,")


if __name__ == "__main__":
    unittest.main()
