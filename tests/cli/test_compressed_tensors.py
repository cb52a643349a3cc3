"""Compressed checkpoints in Transformers with the compressed-tensors package: a model loads from the folder that
--format compressed-tensors wrote, and gives the logits of the weights that `planck dequantize` restores."""

import json
import os
import unittest

os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")  # virtual machines hide what oneDNN finds beyond it
from clients import needs
from command import CommandTest

torch, transformers, compressed_tensors = needs("torch", "transformers", "compressed_tensors")
SHAPE = dict(vocab_size=96, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2)


class CompressedTensors(CommandTest):
    def load(self, name):
        return transformers.AutoModelForCausalLM.from_pretrained(self.path(name), dtype=torch.float32)

    def test_a_model_runs_with_our_integers(self):
        torch.manual_seed(0)
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SHAPE))
        model.save_pretrained(self.path("model"))
        tokens = torch.arange(16).reshape(1, 16)
        original = model(tokens).logits
        for dtype, bits in [("s4", 4), ("s8", 8)]:
            for scheme in [["per-group", "--group", "32"], ["per-channel"]]:
                with self.subTest(dtype=dtype, scheme=scheme[0]):
                    at = f"{dtype}-{scheme[0]}"
                    options = ["--dtype", dtype, "--scheme", *scheme]
                    self.succeed("quantize", self.path("model"), "-o", self.path("ct-" + at), "--format",
                                 "compressed-tensors", *options)
                    self.succeed("quantize", self.path("model"), "-o", self.path("q-" + at), "--include", "proj", *options)
                    self.succeed("dequantize", self.path("q-" + at), "-o", self.path("r-" + at))
                    with open(os.path.join(self.path("ct-" + at), "config.json")) as f:
                        config = json.load(f)["quantization_config"]
                    compressed_tensors.quantization.QuantizationConfig.model_validate(config)
                    logits, want = self.load("ct-" + at)(tokens).logits, self.load("r-" + at)(tokens).logits
                    self.assertTrue(torch.equal(logits, want), (logits - want).abs().max())
                    off = ((logits - original).norm() / original.norm()).item()
                    self.assertLess(off, 0.02 if bits == 8 else 0.2)
                    self.assertGreater(off, 1e-5, "nothing was rounded")

    def test_the_package_unpacks_our_words(self):
        from compressed_tensors.compressors import unpack_from_int32
        from safetensors import safe_open
        torch.manual_seed(1)
        weight = torch.randn(24, 72)  # nine words, or eighteen
        from safetensors.torch import save_file
        save_file({"layer.weight": weight}, self.path("in"))
        for dtype, bits in [("s4", 4), ("s8", 8)]:
            self.succeed("quantize", self.path("in"), "-o", self.path("ct" + dtype), "--format", "compressed-tensors",
                         "--dtype", dtype)
            with safe_open(self.path(f"ct{dtype}/model.safetensors"), "pt") as f:
                packed, scale = f.get_tensor("layer.weight_packed"), f.get_tensor("layer.weight_scale")
                shape = torch.Size(f.get_tensor("layer.weight_shape").tolist())
            codes = unpack_from_int32(packed, bits, shape)
            self.assertEqual(codes.shape, weight.shape)
            self.assertLessEqual((codes * scale - weight).abs().max().item(), 0.51 * scale.max().item())


if __name__ == "__main__":
    unittest.main()
