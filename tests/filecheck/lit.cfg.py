"""Settings of `lit` for the .mlir files of this folder: which files, and what RUN lines call."""

# pyright: reportUndefinedVariable=false
import sys

import lit.formats

config.name = "tessera"  # noqa: F821
config.test_format = lit.formats.ShTest()  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.substitutions += [  # noqa: F821
    ("tessera-opt", f"{sys.executable} -m tessera.tools.opt"),
    ("filecheck", f"{sys.executable} -m filecheck"),
]
