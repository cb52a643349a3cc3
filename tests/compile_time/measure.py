#!/usr/bin/env python3
"""Prints what a user's file costs to compile, CPU seconds and peak memory, and fails beyond the limits.

measure.py [compiler and flags…]; by default g++ -std=c++20 -O3 -DNDEBUG. PLANCK_BUILD names the build, by default any.
A file may take 5 CPU seconds and 300 MB. Machines differ in speed and are busy with other things: twice the seconds fail.
"""
import os
import pathlib
import resource
import subprocess
import sys

SECONDS, SLACK, MEGABYTES = 5, 2, 300

here = pathlib.Path(__file__).resolve().parent
root = here.parents[1]
build = os.environ.get("PLANCK_BUILD")
generated = root / build / "generated" if build else next(root.glob("build/*/generated"), None)
if generated is None or not generated.is_dir():
    sys.exit("measure.py: headers of the list of families are written by the build: ./run build, then again")
command = sys.argv[1:] or ["g++", "-std=c++20", "-O3", "-DNDEBUG"]
subprocess.run([*command, f"-I{root}", f"-I{generated}", "-c", here / "user.cpp", "-o", os.devnull],
               check=True, env={**os.environ, "CCACHE_DISABLE": "1"})
used = resource.getrusage(resource.RUSAGE_CHILDREN)
seconds, megabytes = used.ru_utime + used.ru_stime, used.ru_maxrss // 1024
print(f"{seconds:.1f} CPU seconds, {megabytes} MB")
if seconds > SLACK * SECONDS:
    sys.exit(f"measure.py: {seconds:.1f} CPU seconds, at most {SECONDS} where nothing else runs, {SLACK * SECONDS} anywhere")
if megabytes > MEGABYTES:
    sys.exit(f"measure.py: {megabytes} MB, at most {MEGABYTES}")
