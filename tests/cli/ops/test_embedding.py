"""planck run on the embedding ops, as their users run them."""

import unittest

from checkpoint import Tensor
from command import CommandTest

WEIGHT = [1.0, 2.0, 3.0, 4.0, 5.0, -6.0, 7.0, 8.0]  # four rows of two


class Embedding(CommandTest):
    def test_forward(self):
        for dtype in ("I32", "I64"):
            out = self.run_op("embedding", {"weight": Tensor("F32", [4, 2], WEIGHT),
                                            "indices": Tensor(dtype, [2, 2], [2, 9, 0, 1])}, "padding_idx=1")
            self.assertEqual(out["out"], [5.0, -6.0, 0.0, 0.0, 1.0, 2.0, 0.0, 0.0])
            self.assertEqual(out["bad_indices"], [1])

    def test_backward(self):
        tensors = {"dout": Tensor("F64", [3, 2], [1, 2, 3, 4, 5, 6]), "indices": Tensor("I64", [3], [2, 0, 2])}
        out = self.run_op("embedding_backward", tensors, "num_embeddings=4", "accumulate=false", "padding_idx=-1")
        self.assertEqual(out["dweight"], [3, 4, 0, 0, 6, 8, 0, 0])
        out = self.run_op("embedding_sparse_backward", tensors, "num_embeddings=4")
        self.assertEqual((out["rows"], out["count"]), ([0, 2, -1], [2]))
        self.assertEqual(out["values"], [3, 4, 6, 8, 0, 0])
        tensors["dweight"] = Tensor("F64", [4, 2], [10] * 8)
        out = self.run_op("embedding_backward", tensors, "accumulate=true")
        self.assertEqual(out["dweight"], [13, 14, 10, 10, 16, 18, 10, 10])

    def test_bags(self):
        tensors = {"offsets": Tensor("I64", [3], [0, 2, 2]), "weight": Tensor("F32", [4, 2], WEIGHT),
                   "indices": Tensor("I32", [5], [2, 0, 3, 1, 3])}
        self.assertEqual(self.run_op("embedding_bag", tensors)["out"], [6, -4, 0, 0, 17, 20])
        self.assertEqual(self.run_op("embedding_bag", tensors, "mode=mean", "padding_idx=1")["out"],
                         [3, -2, 0, 0, 7, 8])
        out = self.run_op("embedding_bag", tensors, "mode=max")
        self.assertEqual((out["out"], out["argmax"]), ([5, 2, 0, 0, 7, 8], [0, 1, -1, -1, 2, 2]))
        tensors["weights"] = Tensor("F32", [5], [2, -1, 0.5, 9, 4])
        self.assertEqual(self.run_op("embedding_bag", tensors, "padding_idx=1")["out"], [9, -14, 0, 0, 31.5, 36])
        gradient = {**tensors, "dout": Tensor("F32", [3, 2], [1, 10, 2, 20, 3, 30])}
        out = self.run_op("embedding_bag_backward", gradient, "num_embeddings=4", "padding_idx=1")
        self.assertEqual(out["dweight"], [-1, -10, 0, 0, 2, 20, 13.5, 135])
        self.assertEqual(out["dweights"], [-55, 21, 261, 0, 261])
        tensors["offsets"] = Tensor("I32", [4], [0, 2, 2, 4])
        self.assertEqual(self.run_op("embedding_bag", tensors, "include_last_offset=true")["out"],
                         [9, -14, 0, 0, 30.5, 40])

    def test_refuses_in_one_line(self):
        tensors = {"weight": Tensor("F32", [4, 2], WEIGHT), "indices": Tensor("I32", [2], [0, 1]),
                   "offsets": Tensor("I64", [3], [0, 2, 1])}
        self.refuse_op("bad_offsets is 1, must be 0", "embedding_bag", tensors)
        self.assertNotIn("out", self.names())
        self.refuse_op("mode=median is not sum, mean or max", "embedding_bag", tensors, "mode=median")
        del tensors["offsets"]
        self.refuse_op("padding_idx is 4", "embedding", tensors, "padding_idx=4")
        tensors["indices"] = Tensor("F32", [2], [0, 1])
        self.refuse_op("must be i32 or i64", "embedding", tensors)
        gradient = {"dout": Tensor("F32", [2, 2], [0, 0, 0, 0]), "indices": Tensor("I32", [2], [0, 1])}
        self.refuse_op("num_embeddings is not set", "embedding_backward", gradient)
        self.refuse_op("adds to dweight, which is not given", "embedding_backward", gradient, "num_embeddings=4",
                       "accumulate=true")
        gradient["dout"] = Tensor("F32", [3, 2], [0] * 6)
        self.refuse_op("dout has shape [3, 2]", "embedding_backward", gradient, "num_embeddings=4")


if __name__ == "__main__":
    unittest.main()
