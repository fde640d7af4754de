"""Arrays and CPU tensors of any storage type to float64, and sums that skip hidden terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessera.errors import DtypeError


def as_float64(value: Any, name: str) -> np.ndarray:
    """The value as a float64 array: numpy, ml_dtypes, a CPU torch tensor, or a Python number.

    Widening is exact for every storage type narrower than float64: an oracle gets inputs that are
    already rounded to the storage type. Raises DtypeError for element types that are not numbers.
    """
    if hasattr(value, "detach"):  # a torch tensor; numpy has no bfloat16 to receive it in
        value = value.detach().double().cpu().numpy()
    array = np.asarray(value)
    if array.dtype.kind in "OSUMm" or array.dtype.kind == "c":
        raise DtypeError(f"{name}: element type {array.dtype} is not a real number")
    return array.astype(np.float64)


def visible_product(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """weights @ values where a weight of exactly zero hides its row, even of NaN or infinity.

    weights [..., rows, terms], values [..., terms, columns] -> [..., rows, columns]. IEEE gives
    0 * NaN = NaN, but a key that is masked away must not reach the output.
    """
    if np.isfinite(values).all():
        return weights @ values
    finite = np.where(np.isfinite(values), values, 0.0)
    total = weights @ finite
    rows = weights.shape[-2]
    for row in range(rows):
        weight = weights[..., row, :, None]
        with np.errstate(invalid="ignore"):
            terms = np.where(weight != 0.0, weight * values, 0.0)
        reached = ((weight != 0.0) & ~np.isfinite(values)).any(axis=-2)
        total[..., row, :] = np.where(reached, terms.sum(axis=-2), total[..., row, :])
    return total
