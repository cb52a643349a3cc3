#!/usr/bin/env python3
"""How fast a model trains on the CPU, beside the same model in PyTorch, on the same number of threads.

    tests/parity/throughput.py build/release/tools/planck/planck [THREADS]    the demo's float model
    tests/parity/throughput.py build/release/tests/gpt_steps [THREADS]        the small GPT of examples/07_gpt

Needs torch. They take turns. The GPT: steps of 16 sequences of 128 tokens in f32, the median of five runs of eight, the first
two of each left out; also as time of the CPU, of all threads, which a busy machine distorts less.

The demo: both distort each batch of 64 pictures, run forward and backward, clip gradients by their norm and take a step
of AdamW; the time of the whole epoch counts, and the best of three counts for each.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv0, self.hidden0, self.theta = nn.Conv2d(1, 8, 3, padding=1), nn.Linear(128, 32), nn.Linear(32, 6)
        nn.init.zeros_(self.theta.weight)
        nn.init.zeros_(self.theta.bias)
        self.conv1, self.conv2 = nn.Conv2d(1, 16, 3, padding=1), nn.Conv2d(16, 32, 3, padding=1)
        self.places = nn.Embedding(16, 32)
        self.hidden, self.output = nn.Linear(512, 64), nn.Linear(64, 10)
        self.register_buffer("identity", torch.tensor([1., 0, 0, 0, 1, 0]))

    def forward(self, x):
        h = F.max_pool2d(F.relu(self.conv0(F.avg_pool2d(x, 2))), 2)
        theta = self.theta(F.relu(self.hidden0(h.flatten(1)))) + self.identity
        y = F.grid_sample(x, F.affine_grid(theta.view(-1, 2, 3), x.shape, align_corners=False), align_corners=False)
        y = F.max_pool2d(F.relu(self.conv1(y)), 2)
        y = F.max_pool2d(F.relu(self.conv2(y)), 2)
        y = y.flatten(2) + self.places(torch.arange(16)).T
        return self.output(F.relu(self.hidden(y.flatten(1))))


def torch_rate(epochs=6, count=1437, batch=64):
    net = Net()
    adam = torch.optim.AdamW(net.parameters(), lr=4e-3, weight_decay=0.01)
    pictures, labels = torch.rand(count, 1, 8, 8), torch.randint(0, 10, (count,))
    best = 0.0
    for _ in range(epochs):
        begin = time.perf_counter()
        for which in torch.randperm(count).split(batch):
            theta = torch.eye(2, 3) + 0.2 * (torch.rand(len(which), 2, 3) - 0.5)
            grid = F.affine_grid(theta, (len(which), 1, 16, 16), align_corners=False)
            x = F.grid_sample(pictures[which], grid, align_corners=False)
            loss = F.cross_entropy(net(x), labels[which])
            adam.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            adam.step()
            loss.item()
        best = max(best, count / (time.perf_counter() - begin))
    return best


def planck_rate(planck, threads):
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run([planck, "demo", "--epochs", "6", "--qat-epochs", "1", "--threads", str(threads), "--out",
                               folder], check=True, capture_output=True, text=True).stdout
    return float(re.search(r"float training: (\d+) images/s", text).group(1))


def gpt_row(steps, threads, turns=5):
    here = os.path.dirname(os.path.abspath(__file__))
    text = os.path.join(here, "../../LICENSE")
    programs = {"Planck": [steps], "PyTorch": [sys.executable, os.path.join(here, "gpt_torch.py")]}
    options = [text, "--steps", "8", "--batch", "16", "--threads", str(threads)]
    wall, cpu = {name: [] for name in programs}, {name: [] for name in programs}
    for _ in range(turns):
        for name, program in programs.items():
            out = json.loads(subprocess.run(program + options, check=True, capture_output=True, text=True).stdout)
            wall[name] += out["milliseconds"][2:]
            cpu[name] += out["cpu_milliseconds"][2:]
    for what, times in (("a step", wall), ("its time of the CPU", cpu)):
        ours, theirs = (statistics.median(times[name]) for name in programs)
        print(f"{threads} threads, {what}: Planck {ours:.1f} ms, PyTorch {torch.__version__} {theirs:.1f} ms, "
              f"ratio {theirs / ours:.2f}")
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


def main():
    planck, threads = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2
    if os.path.basename(planck) == "gpt_steps":
        return gpt_row(planck, threads)
    torch.set_num_threads(threads)
    ours, theirs = 0.0, 0.0
    for turn in range(3):
        ours, theirs = max(ours, planck_rate(planck, threads)), max(theirs, torch_rate())
    print(f"{threads} threads: Planck {ours:.0f} images/s, PyTorch {torch.__version__} {theirs:.0f} images/s, "
          f"ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
