"""XGBoost, without an import of SciPy."""

import sys
import types
from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
FeatureArray = npt.NDArray[np.float32]

SPARSE_CLASSES = ("csr_matrix", "csc_matrix", "coo_matrix", "csr_array", "csc_array", "coo_array", "spmatrix")


def xgboost_module() -> Any:
    """The ``xgboost`` module.

    It imports ``scipy.sparse`` to recognise sparse matrices, which costs 0.2 s and 40 MB per process. This project has
    no sparse matrices, so empty classes replace those of SciPy unless it is already loaded.
    """
    if "xgboost" not in sys.modules and "scipy" not in sys.modules:
        scipy, sparse = types.ModuleType("scipy"), types.ModuleType("scipy.sparse")
        for name in SPARSE_CLASSES:
            setattr(sparse, name, type(name, (), {}))
        scipy.sparse = sparse  # type: ignore[attr-defined]
        sys.modules.update({"scipy": scipy, "scipy.sparse": sparse})
    import xgboost

    return xgboost


class BoostedTrees:
    """A regression over feature vectors. Uses one thread: next to busy builders, more would wait for each other."""

    def __init__(self, booster: Any) -> None:
        self._booster = booster

    @classmethod
    def fit(
        cls,
        features: FeatureArray,
        labels: FloatArray,
        *,
        rounds: int,
        depth: int,
        seed: int,
        weights: FloatArray | None = None,
    ) -> "BoostedTrees":
        """Learn ``labels`` (shape [samples]) from ``features`` (shape [samples, names]; NaN is missing)."""
        xgboost = xgboost_module()
        data = xgboost.DMatrix(features, label=labels, weight=weights, nthread=1)
        parameters = {
            "objective": "reg:squarederror",
            "tree_method": "exact" if len(labels) <= 256 else "hist",
            "max_depth": depth,
            "eta": min(0.3, 6.0 / rounds),
            "subsample": 0.85,
            "colsample_bylevel": 0.6,
            "min_child_weight": 0.5,
            "base_score": float(np.average(labels, weights=weights)),
            "nthread": 1,
            "seed": seed,
        }
        return cls(xgboost.train(parameters, data, rounds))

    def predict(self, features: FeatureArray) -> FloatArray:
        """Predictions of shape [points]."""
        found: FloatArray = self._booster.inplace_predict(features, missing=np.nan).astype(np.float64)
        return found

    def save(self) -> str:
        """The trees as JSON text."""
        return bytes(self._booster.save_raw("json")).decode()

    @classmethod
    def load(cls, text: str) -> "BoostedTrees":
        """Load trees from the output of ``save``.

        Raises:
            ValueError: the text is not a saved model.
        """
        xgboost = xgboost_module()
        booster = xgboost.Booster({"nthread": 1})
        try:
            booster.load_model(bytearray(text.encode()))
        except xgboost.core.XGBoostError as error:
            raise ValueError("not a model in XGBoost's JSON form") from error
        return cls(booster)
