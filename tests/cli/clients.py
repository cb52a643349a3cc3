"""Packages of other people that tests read our files with. Where one is missing, the whole test is skipped, visibly:
ctest shows it as skipped, with the reason. tests/cli/install_clients puts them into build/clients, where the tests find them."""

import importlib
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "checkpoint_format.md"
SKIPPED = 77  # what ctest takes for "skipped"


def needs(*names):
    """The modules; ends the process as skipped where one is missing."""
    modules = []
    for name in names:
        try:
            modules.append(importlib.import_module(name))
        except ImportError as why:
            large = " torch" if "torch" in names else ""
            print(f"skipped: {why} (tests/cli/install_clients{large})", file=sys.stderr)
            sys.exit(SKIPPED)
    return modules[0] if len(modules) == 1 else modules


def docs_reader():
    """The function `read` of the page's Python block."""
    names = {}
    exec(re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)[1], names)
    return names["read"]
