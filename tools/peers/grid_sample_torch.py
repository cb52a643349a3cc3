#!/usr/bin/env python3
"""Times PyTorch's grid_sample on two CPU threads: what docs/performance/cpu.md sets beside planck bench."""
import time

import torch
import torch.nn.functional as F

BATCH, CHANNELS, SIZE = 8, 32, 128


def best_ms(work, repeats=15):
    work()
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times) * 1e3


def main():
    torch.set_num_threads(2)
    torch.manual_seed(1)
    shape = [BATCH, CHANNELS, SIZE, SIZE]
    theta = torch.tensor([[0.9, 0.2, 0.05], [-0.2, 0.9, -0.03]]).repeat(BATCH, 1, 1)
    grids = {
        "affine": F.affine_grid(theta, shape, align_corners=False),
        "random": torch.rand(BATCH, SIZE, SIZE, 2) * 2 - 1,
    }
    for name, grid in grids.items():
        image = torch.randn(shape, requires_grad=True)
        grid.requires_grad_()
        forward = best_ms(lambda: F.grid_sample(image.detach(), grid.detach(), align_corners=False))
        out = F.grid_sample(image, grid, align_corners=False)
        dout = torch.randn_like(out)
        backward = best_ms(lambda: torch.autograd.grad(out, [image, grid], dout, retain_graph=True))
        print(f"torch {torch.__version__} {name}: forward {forward:.1f} ms, backward {backward:.1f} ms")


if __name__ == "__main__":
    main()
