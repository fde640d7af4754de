"""Attention and matmul written in Triton's language, to Triton's own code for gfx1151.

The peers that ladders are held against: plain kernels whose tile sizes are tried in turn by
`triton_peers`. Needs the package triton; importing this file does too.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def matmul_kernel(
    a_pointer: tl.tensor,
    b_pointer: tl.tensor,
    c_pointer: tl.tensor,
    m: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    row_a: tl.tensor,
    row_b: tl.tensor,
    row_c: tl.tensor,
    TILE_M: tl.constexpr,
    TILE_N: tl.constexpr,
    TILE_K: tl.constexpr,
    BAND: tl.constexpr,
) -> None:
    """c [m, n] f32 = a [m, k] b [k, n]; sizes are multiples of the tiles."""
    number = tl.program_id(0)
    tiles_n = n // TILE_N
    in_band = BAND * tiles_n
    first_m = number // in_band * BAND
    tile_m = first_m + number % in_band % BAND
    tile_n = number % in_band // BAND
    rows = tile_m * TILE_M + tl.arange(0, TILE_M)
    columns = tile_n * TILE_N + tl.arange(0, TILE_N)
    inner = tl.arange(0, TILE_K)
    a_places = a_pointer + rows[:, None] * row_a + inner[None, :]
    b_places = b_pointer + inner[:, None] * row_b + columns[None, :]
    total = tl.zeros((TILE_M, TILE_N), tl.float32)
    for _ in range(0, k, TILE_K):
        total = tl.dot(tl.load(a_places), tl.load(b_places), total)
        a_places += TILE_K
        b_places += TILE_K * row_b
    tl.store(c_pointer + rows[:, None] * row_c + columns[None, :], total)


@triton.jit
def attention_kernel(
    q_pointer: tl.tensor,
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    o_pointer: tl.tensor,
    lse_pointer: tl.tensor,
    seq: tl.tensor,
    scale: tl.tensor,
    HEAD_DIM: tl.constexpr,
    TILE_Q: tl.constexpr,
    TILE_K: tl.constexpr,
    CAUSAL: tl.constexpr,
) -> None:
    """o and lse of contiguous q, k, v [heads, seq, head_dim]; seq is a multiple of the tiles."""
    start = tl.program_id(0) * TILE_Q
    base = tl.program_id(1).to(tl.int64) * seq * HEAD_DIM
    queries = start + tl.arange(0, TILE_Q)
    keys = tl.arange(0, TILE_K)
    channels = tl.arange(0, HEAD_DIM)
    q = tl.load(q_pointer + base + queries[:, None] * HEAD_DIM + channels[None, :])
    k_places = k_pointer + base + keys[None, :] * HEAD_DIM + channels[:, None]
    v_places = v_pointer + base + keys[:, None] * HEAD_DIM + channels[None, :]
    largest = tl.full((TILE_Q,), float("-inf"), tl.float32)
    total = tl.zeros((TILE_Q,), tl.float32)
    sums = tl.zeros((TILE_Q, HEAD_DIM), tl.float32)
    in_base_two = scale * 1.4426950408889634
    end = seq
    if CAUSAL:
        # Tiles that every query of this one sees; those on the diagonal follow.
        end = start // TILE_K * TILE_K
    for first in range(0, end, TILE_K):
        s = tl.dot(q, tl.load(k_places + first * HEAD_DIM))
        bigger = tl.maximum(largest, tl.max(s, 1) * in_base_two)
        p = tl.math.exp2(s * in_base_two - bigger[:, None])
        shrink = tl.math.exp2(largest - bigger)
        total = total * shrink + tl.sum(p, 1)
        sums = sums * shrink[:, None]
        sums = tl.dot(p.to(q.dtype), tl.load(v_places + first * HEAD_DIM), sums)
        largest = bigger
    if CAUSAL:
        for first in range(end, start + TILE_Q, TILE_K):
            s = tl.dot(q, tl.load(k_places + first * HEAD_DIM)) * in_base_two
            s = tl.where(queries[:, None] >= first + keys[None, :], s, float("-inf"))
            bigger = tl.maximum(largest, tl.max(s, 1))
            p = tl.math.exp2(s - bigger[:, None])
            shrink = tl.math.exp2(largest - bigger)
            total = total * shrink + tl.sum(p, 1)
            sums = sums * shrink[:, None]
            sums = tl.dot(p.to(q.dtype), tl.load(v_places + first * HEAD_DIM), sums)
            largest = bigger
    o = sums / total[:, None]
    places = base + queries[:, None] * HEAD_DIM + channels[None, :]
    tl.store(o_pointer + places, o.to(o_pointer.dtype.element_ty))
    lse = (largest + tl.math.log2(total)) * 0.6931471805599453
    tl.store(lse_pointer + tl.program_id(1) * seq + queries, lse)


@triton.jit
def delta_kernel(
    o_pointer: tl.tensor,
    do_pointer: tl.tensor,
    delta_pointer: tl.tensor,
    HEAD_DIM: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    """delta = sum over the channels of o do, f32, for rows of HEAD_DIM channels."""
    rows = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    places = rows[:, None] * HEAD_DIM + tl.arange(0, HEAD_DIM)[None, :]
    o = tl.load(o_pointer + places).to(tl.float32)
    do = tl.load(do_pointer + places).to(tl.float32)
    tl.store(delta_pointer + rows, tl.sum(o * do, 1))


@triton.jit
def key_gradient_kernel(
    q_pointer: tl.tensor,
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    do_pointer: tl.tensor,
    lse_pointer: tl.tensor,
    delta_pointer: tl.tensor,
    dk_pointer: tl.tensor,
    dv_pointer: tl.tensor,
    seq: tl.tensor,
    scale: tl.tensor,
    HEAD_DIM: tl.constexpr,
    OWN: tl.constexpr,
    STEP: tl.constexpr,
    CAUSAL: tl.constexpr,
) -> None:
    """dk and dv of OWN keys, over all queries that see them in steps of STEP."""
    start = tl.program_id(0) * OWN
    head = tl.program_id(1).to(tl.int64)
    base = head * seq * HEAD_DIM
    keys, channels = start + tl.arange(0, OWN), tl.arange(0, HEAD_DIM)
    own = base + keys[:, None] * HEAD_DIM + channels[None, :]
    k, v = tl.load(k_pointer + own), tl.load(v_pointer + own)
    dk = tl.zeros((OWN, HEAD_DIM), tl.float32)
    dv = tl.zeros((OWN, HEAD_DIM), tl.float32)
    in_base_two = scale * 1.4426950408889634
    first = 0
    if CAUSAL:
        first = start // STEP * STEP
    for query in range(first, seq, STEP):
        queries = query + tl.arange(0, STEP)
        places = base + queries[:, None] * HEAD_DIM + channels[None, :]
        q, do = tl.load(q_pointer + places), tl.load(do_pointer + places)
        lse = tl.load(lse_pointer + head * seq + queries) * 1.4426950408889634
        delta = tl.load(delta_pointer + head * seq + queries)
        p = tl.math.exp2(tl.dot(k, tl.trans(q)) * in_base_two - lse[None, :])
        if CAUSAL:
            p = tl.where(queries[None, :] >= keys[:, None], p, 0.0)
        dv = tl.dot(p.to(q.dtype), do, dv)
        dp = tl.dot(v, tl.trans(do))
        ds = p * (dp - delta[None, :])
        dk = tl.dot(ds.to(q.dtype), q, dk)
    tl.store(dk_pointer + own, (dk * scale).to(dk_pointer.dtype.element_ty))
    tl.store(dv_pointer + own, dv.to(dv_pointer.dtype.element_ty))


@triton.jit
def query_gradient_kernel(
    q_pointer: tl.tensor,
    k_pointer: tl.tensor,
    v_pointer: tl.tensor,
    do_pointer: tl.tensor,
    lse_pointer: tl.tensor,
    delta_pointer: tl.tensor,
    dq_pointer: tl.tensor,
    seq: tl.tensor,
    scale: tl.tensor,
    HEAD_DIM: tl.constexpr,
    OWN: tl.constexpr,
    STEP: tl.constexpr,
    CAUSAL: tl.constexpr,
) -> None:
    """dq of OWN queries, over all keys that they see in steps of STEP."""
    start = tl.program_id(0) * OWN
    head = tl.program_id(1).to(tl.int64)
    base = head * seq * HEAD_DIM
    queries, channels = start + tl.arange(0, OWN), tl.arange(0, HEAD_DIM)
    own = base + queries[:, None] * HEAD_DIM + channels[None, :]
    q, do = tl.load(q_pointer + own), tl.load(do_pointer + own)
    lse = tl.load(lse_pointer + head * seq + queries) * 1.4426950408889634
    delta = tl.load(delta_pointer + head * seq + queries)
    dq = tl.zeros((OWN, HEAD_DIM), tl.float32)
    in_base_two = scale * 1.4426950408889634
    end = seq
    if CAUSAL:
        end = start + OWN
    for key in range(0, end, STEP):
        keys = key + tl.arange(0, STEP)
        places = base + keys[:, None] * HEAD_DIM + channels[None, :]
        k, v = tl.load(k_pointer + places), tl.load(v_pointer + places)
        p = tl.math.exp2(tl.dot(q, tl.trans(k)) * in_base_two - lse[:, None])
        if CAUSAL:
            p = tl.where(queries[:, None] >= keys[None, :], p, 0.0)
        ds = p * (tl.dot(do, tl.trans(v)) - delta[:, None])
        dq = tl.dot(ds.to(q.dtype), k, dq)
    tl.store(dq_pointer + own, (dq * scale).to(dq_pointer.dtype.element_ty))
