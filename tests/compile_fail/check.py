#!/usr/bin/env python3
"""A source that must not compile, and whose error says what its first lines expect."""
import re
import subprocess
import sys

source, command = sys.argv[1], sys.argv[2:]
expected = re.findall(r"^// expected: (.*)$", open(source).read(), re.M)
done = subprocess.run([*command, "-fsyntax-only", source], capture_output=True, text=True)
if done.returncode == 0:
    sys.exit(f"{source} compiles")
missing = [e for e in expected if not re.search(e, done.stderr)]
if not expected or missing:
    sys.exit(f"{source}: the errors do not say {missing}:\n{done.stderr[:4000]}")
