#!/usr/bin/env python3
"""Prints what a user's file costs to compile: CPU seconds and peak memory.

measure.py [compiler and flags…]; by default g++ -std=c++20 -O3 -DNDEBUG. Holds no limit: machines differ.
"""
import os
import pathlib
import resource
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
root = here.parents[1]
generated = next(root.glob("build/*/generated"), None)
if generated is None:
    sys.exit("measure.py: headers of the list of families are written by the build: ./run build, then again")
command = sys.argv[1:] or ["g++", "-std=c++20", "-O3", "-DNDEBUG"]
subprocess.run([*command, f"-I{root}", f"-I{generated}", "-c", here / "user.cpp", "-o", os.devnull],
               check=True, env={**os.environ, "CCACHE_DISABLE": "1"})
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(f"{used.ru_utime + used.ru_stime:.1f} CPU seconds, {used.ru_maxrss // 1024} MB")
