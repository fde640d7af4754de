"""A result, its oracle and an error bound to the worst error as a multiple of the bound."""

from __future__ import annotations

from typing import Any

import numpy as np

from tessera.reference.widen import as_float64


def check(actual: Any, expected: Any, bound: Any, name: str = "result") -> float:
    """Accept a result only where |actual - expected| <= bound, element by element.

    `bound` is an array that broadcasts to `expected`, or a number. Returns the largest
    |actual - expected| / bound (0 for an empty result). Raises AssertionError that names the worst
    element when the shape differs, when any element is beyond its bound, or when actual is not
    finite where expected is. An expected NaN or infinity must be met by the same.
    """
    result, oracle = as_float64(actual, name), as_float64(expected, "expected")
    if result.shape != oracle.shape:
        raise AssertionError(f"{name}: shape {result.shape}, expected {oracle.shape}")
    errors = _error_multiples(result, oracle, as_float64(bound, "bound"))
    if errors.size == 0:
        return 0.0
    worst = np.unravel_index(int(errors.argmax()), errors.shape)
    if errors[worst] > 1.0:
        limit = np.broadcast_to(bound, oracle.shape)[worst]
        index = tuple(int(i) for i in worst)
        raise AssertionError(
            f"{name}: {int((errors > 1.0).sum())} of {errors.size} elements are beyond the bound; "
            f"worst at {index}: {result[worst]!r}, expected {oracle[worst]!r} "
            f"within {float(limit):.3g} ({errors[worst]:.3g} times the bound)"
        )
    return float(errors[worst])


def worst_error(actual: Any, expected: Any) -> float:
    """Largest |actual - expected|; infinite where only one of the two is finite."""
    result, oracle = as_float64(actual, "actual"), as_float64(expected, "expected")
    errors = _error_multiples(result, oracle, np.ones(()))
    return float(errors.max(initial=0.0))


def _error_multiples(result: np.ndarray, oracle: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """|result - oracle| / bound with 0 / 0 = 0; never NaN, so that no comparison can pass by it."""
    if not (bound >= 0).all():
        raise ValueError("the bound has negative elements or NaN")
    with np.errstate(invalid="ignore", divide="ignore"):
        difference = np.abs(result - oracle)
        multiples = np.where(difference == 0.0, 0.0, difference / bound)
    same_special = (result == oracle) | (np.isnan(result) & np.isnan(oracle))
    finite = np.isfinite(result) & np.isfinite(oracle)
    return np.where(finite, multiples, np.where(same_special, 0.0, np.inf))
