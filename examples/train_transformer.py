"""A tiny transformer block, trained with Tessera's attention on the emulator and in float64.

    python examples/train_transformer.py --steps 50 --output losses.png

Both runs start from the same weights and see the same batches. One computes attention, forward and
backward, in f16 by the machine code of gfx1151, run by the emulator; the other one does everything
in float64. Their losses must agree, step by step. No GPU is needed.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import torch
from torch import Tensor, nn

from tessera.pytorch import flash_attn

VOCABULARY, WIDTH, HEADS, SEQ, BATCH = 16, 32, 2, 24, 4
LEARNING_RATE = 0.02
LARGEST_DIFFERENCE = 0.01
"""Of the two losses at any step, in nats per token."""


class Block(nn.Module):
    """One transformer block between an embedding and a projection to the vocabulary.

    Tokens [batch, seq] become logits [batch, seq, vocabulary]. Attention is computed in
    `attention_dtype` by `executor`, everything else in the dtype of the weights.
    """

    def __init__(self, executor: str, attention_dtype: torch.dtype) -> None:
        super().__init__()
        self.executor, self.attention_dtype = executor, attention_dtype
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(SEQ, WIDTH)
        self.before_attention, self.before_mlp = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.merge = nn.Linear(WIDTH, WIDTH, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 2 * WIDTH), nn.GELU(), nn.Linear(2 * WIDTH, WIDTH)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of the next answer at every position."""
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        x = x + self.merge(self.attention(self.before_attention(x)))
        x = x + self.mlp(self.before_mlp(x))
        return self.head(x)

    def attention(self, x: Tensor) -> Tensor:
        """Causal attention of [batch, seq, width] over `HEADS` heads."""
        batch, seq, _ = x.shape
        qkv = self.qkv(x).to(self.attention_dtype)
        # [batch, seq, 3, heads, head_dim] in memory: the kernels take these strides as they are.
        q, k, v = qkv.view(batch, seq, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        o = flash_attn(q, k, v, causal=True, executor=self.executor)
        return o.transpose(1, 2).reshape(batch, seq, WIDTH).to(x.dtype)


def batches(steps: int, seed: int = 0) -> list[tuple[Tensor, Tensor]]:
    """(tokens, answers): the answer at each position is the token two places before it."""
    generator = torch.Generator().manual_seed(seed)
    drawn = [torch.randint(VOCABULARY, (BATCH, SEQ), generator=generator) for _ in range(steps)]
    return [(tokens, tokens.roll(2, dims=1)) for tokens in drawn]


def train(
    steps: int, executor: str, dtype: torch.dtype, attention_dtype: torch.dtype
) -> list[float]:
    """The loss before every step of Adam, from weights that are the same for every dtype."""
    torch.manual_seed(0)
    # Made in float64 in every case, so that rounding them is the only difference.
    torch.set_default_dtype(torch.float64)
    model = Block(executor, attention_dtype).to(dtype)
    torch.set_default_dtype(torch.float32)
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)
    losses = []
    for tokens, answers in batches(steps):
        logits = model(tokens)[:, 2:]
        loss = nn.functional.cross_entropy(
            logits.reshape(-1, VOCABULARY), answers[:, 2:].reshape(-1)
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def plot(curves: dict[str, list[float]], path: Path) -> None:
    """Both loss curves over the steps, into an image."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 3.6), layout="constrained")
    # The first line is wide and pale, so that the second one shows on top of it.
    for (name, losses), (width, alpha) in zip(curves.items(), ((4.0, 0.35), (1.2, 1.0))):
        axes.plot(range(len(losses)), losses, label=name, linewidth=width, alpha=alpha)
    axes.set_xlabel("step of Adam")
    axes.set_ylabel("cross entropy (nats per token)")
    axes.set_title("A transformer block learns to repeat the token two places before")
    axes.legend()
    figure.savefig(path, dpi=120)


def main(arguments: list[str] | None = None) -> float:
    """Train both, say how far apart they are; returns the largest difference of the losses."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--output", type=Path, help="image of the loss curves")
    parser.add_argument("--json", type=Path, help="file for the losses as numbers")
    options = parser.parse_args(arguments)
    curves = {
        "float64 throughout": train(options.steps, "reference", torch.float64, torch.float64),
        "f16 attention, machine code on the emulator": train(
            options.steps, "emulator", torch.float32, torch.float16
        ),
    }
    exact, emulated = curves.values()
    difference = max(abs(a - b) for a, b in zip(exact, emulated, strict=True))
    print(f"loss {exact[0]:.4f} -> {exact[-1]:.4f} in float64, {emulated[-1]:.4f} on the emulator")
    print(f"largest difference at any step: {difference:.1e} nats")
    if options.output:
        plot(curves, options.output)
    if options.json:
        options.json.write_text(json.dumps(curves, indent=1) + "\n")
    if difference > LARGEST_DIFFERENCE:
        raise SystemExit(f"the losses part by more than {LARGEST_DIFFERENCE} nats")
    return difference


if __name__ == "__main__":
    main()
