"""The model of examples/07_gpt in PyTorch, and its training step. Used by gpt_losses.py and whole_models.py.

    gpt_torch.py TEXT OPTIONS   runs some steps and prints what tests/parity/gpt_steps.cpp prints, without a hash
"""
import argparse
import json
import math
import struct
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

PRESETS = {"tiny": (96, 128, 4, 4), "10m": (512, 320, 5, 8), "124m": (50304, 768, 12, 12)}  # vocabulary, width, heads, blocks
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "I64": torch.int64}


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.before_attention, self.before_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.widen, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        n, length, width = x.shape
        q, k, v = self.qkv(self.before_attention(x)).view(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(n, length, width))
        return x + self.narrow(F.gelu(self.widen(self.before_mlp(x))))


class GPT(nn.Module):
    def __init__(self, preset, length):
        super().__init__()
        vocabulary, width, heads, blocks = PRESETS[preset]
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(blocks))
        self.last = nn.LayerNorm(width)
        for table in (self.tokens, self.places):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, text):
        x = self.tokens(text) + self.places.weight
        for block in self.blocks:
            x = block(x)
        return self.last(x) @ self.tokens.weight.t()


def read_state(path):
    with open(path, "rb") as f:
        raw = f.read()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    out = {}
    for name, e in header.items():
        begin, end = e["data_offsets"]
        flat = torch.frombuffer(bytearray(raw[8 + size + begin:8 + size + end]), dtype=DTYPES[e["dtype"]])
        out[name] = flat.reshape(e["shape"])
    return out


def tokens_of(path, vocabulary):
    """As examples/07_gpt/text.h has them."""
    with open(path, "rb") as f:
        raw = f.read()
    if vocabulary >= 256:
        return torch.tensor(list(raw))
    known = {b: b - 32 for b in range(32, 127)} | {ord("\n"): 95, ord("\t"): 0}
    return torch.tensor([known.get(b, ord("?") - 32) for b in raw])


def rate_of(step, steps, highest):
    warm = steps // 20
    warm_up = 1 if warm <= 0 or step + 1 >= warm else (step + 1) / warm
    at = min(max(step / (steps - 1), 0), 1) if steps > 1 else 1
    return highest * warm_up * (0.1 + 0.9 * 0.5 * (1 + math.cos(math.pi * at)))


class Training:
    """Steps of AdamW with the options of examples/07_gpt/run.h. With a `start` (gpt_steps --start) on the same batches."""

    def __init__(self, text, preset, batch, length, steps, device="cpu", amp=False, compiled=False, start=None, rate=1e-3):
        torch.manual_seed(1)
        self.batch, self.length, self.steps, self.device, self.amp, self.rate = batch, length, steps, device, amp, rate
        model = GPT(preset, length)
        self.text = tokens_of(text, PRESETS[preset][0])
        if start:
            state = {name: t.float() if t.is_floating_point() else t for name, t in read_state(start).items()}
            self.places = state.pop("places_in_text").reshape(steps, batch)
            model.load_state_dict(state)
        else:
            self.places = torch.randint(len(self.text) - length, (steps, batch))
        model, self.text, self.places = model.to(device), self.text.to(device), self.places.to(device)
        bare = [p for n, p in model.named_parameters() if n.endswith("bias") or "before_" in n or n.startswith("last")]
        rest = [p for p in model.parameters() if not any(p is q for q in bare)]
        self.adam = torch.optim.AdamW([{"params": rest, "weight_decay": 0.1}, {"params": bare, "weight_decay": 0}],
                                      lr=rate, betas=(0.9, 0.95), fused=True)
        self.model, self.run = model, torch.compile(model) if compiled else model

    def step(self, i):
        """The loss, on the device."""
        at = self.places[i][:, None] + torch.arange(self.length, device=self.device)
        inputs, targets = self.text[at], self.text[at + 1].flatten()
        for group in self.adam.param_groups:
            group["lr"] = rate_of(i, self.steps, self.rate)
        with torch.autocast(self.device, torch.bfloat16, enabled=self.amp):
            logits = self.run(inputs).flatten(0, 1)
        loss = F.cross_entropy(logits.float(), targets)
        self.adam.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.adam.step()
        return loss.detach()


def process_mib(name):
    with open("/proc/self/status") as f:
        for line in f:
            if line.startswith(name + ":"):
                return int(line.split()[1]) / 1024
    return 0.0


def parser():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("text")
    p.add_argument("--preset", default="tiny", choices=PRESETS)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--length", type=int, default=128)
    p.add_argument("--steps", type=int, default=8)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--amp", action="store_true")
    p.add_argument("--compile", action="store_true")
    p.add_argument("--start")
    return p


def main():
    a = parser().parse_args()
    torch.set_num_threads(a.threads)
    run = Training(a.text, a.preset, a.batch, a.length, a.steps, a.device, a.amp, a.compile, a.start)
    before, milliseconds, cpu, losses = process_mib("VmRSS"), [], [], []
    for i in range(a.steps):
        begin, cpu_begin = time.perf_counter(), time.process_time()
        losses.append(run.step(i).item())
        milliseconds.append(1e3 * (time.perf_counter() - begin))
        cpu.append(1e3 * (time.process_time() - cpu_begin))
    out = {"tokens": a.batch * a.length, "milliseconds": milliseconds, "cpu_milliseconds": cpu, "losses": losses,
           "growth_mib": process_mib("VmHWM") - before, "torch": torch.__version__}
    if a.device == "cuda":
        out["allocator_peak_mib"] = torch.cuda.max_memory_allocated() / 2**20
    json.dump(out, sys.stdout)
    print()


if __name__ == "__main__":
    main()
