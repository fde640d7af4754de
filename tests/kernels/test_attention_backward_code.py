"""The code of the backward kernels: no spills, resources, compile time, no atomics."""

import os
import subprocess
import sys
import time

import numpy as np
import pytest
from attention_options import CASES, backward_function
from kernel_runs import CHIP, DTYPES

import tessera
from tessera import testing
from tessera.testing import random_tensor

LDS_LIMIT = 65536
KERNELS = ("pre", "dkdv", "dq")


def artifact(head_dim, dtype="f16", offset=0, causal=False, case="plain"):
    """The compiled backward of one head size, its operands `offset` elements off a boundary."""
    kind = DTYPES[dtype]
    rows = testing.guarded(random_tensor((1, 2, 64, head_dim), kind, 0), offset=offset).array
    lse = np.zeros((1, 2, 64), np.float32)
    options = {"causal": causal, **CASES[case].options}
    function = backward_function((), tuple(options.items()))
    return function.lower(rows, rows, rows, rows, rows, lse)


@pytest.mark.parametrize("head_dim", [16, 40, 64, 72, 80, 96, 104, 112, 128])
@pytest.mark.parametrize("dtype, causal", [("f16", True), ("f16", False), ("bf16", True)])
def test_no_spills_up_to_head_dim_128(head_dim, dtype, causal):
    kernels = artifact(head_dim, dtype, 0, causal).kernels
    assert [kernel.name.rpartition("_")[2] for kernel in kernels] == list(KERNELS)
    for kernel in kernels:
        assert kernel.scratch_bytes == 0, f"{kernel.name} spills {kernel.scratch_bytes} bytes"
        assert kernel.lds_bytes <= LDS_LIMIT


@pytest.mark.parametrize("head_dim", [17, 64, 111, 128])
def test_no_spills_without_alignment(head_dim):
    for kernel in artifact(head_dim, offset=1, causal=True).kernels:
        assert kernel.scratch_bytes == 0, f"{kernel.name} spills {kernel.scratch_bytes} bytes"


@pytest.mark.parametrize("head_dim", [160, 192, 256])
def test_resources_of_large_heads(head_dim):
    for kernel in artifact(head_dim).kernels:
        assert kernel.lds_bytes <= LDS_LIMIT
        assert kernel.vgprs <= 256
        assert kernel.scratch_bytes == 0, f"{kernel.name} spills {kernel.scratch_bytes} bytes"


DIRECTIVE = (
    '"tessera_rocm.flash_attn_bwd"() {name = "fa", head_dim = 64 : i64, dtype = "f16"} : () -> ()'
)


def test_a_directive_alone_gives_three_kernels():
    compiled = tessera.compile(DIRECTIVE, target=CHIP)
    assert [kernel.name for kernel in compiled.kernels] == ["fa_pre", "fa_dkdv", "fa_dq"]


def test_cold_compilation_is_quick_enough(tmp_path):
    code = (
        "import time, tessera\n"
        f"start = time.process_time()\n"
        f"tessera.compile('''{DIRECTIVE}''', target='{CHIP}').hsaco\n"
        "print(time.process_time() - start)"
    )
    environment = {**os.environ, "TESSERA_CACHE_DIR": str(tmp_path)}
    start = time.perf_counter()
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    # Processor time of the compilation, since other tests may share the machine's cores.
    assert float(result.stdout) < 4.0, f"{time.perf_counter() - start:.1f} s in all"


def test_the_same_text_on_every_compilation():
    assert str(artifact(64).text("llvm")) == str(artifact(64).text("llvm"))


def test_no_atomics():
    assert "atomic" not in artifact(64).text("asm")
