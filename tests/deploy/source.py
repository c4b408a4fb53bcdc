"""The files that operate a farm, as data."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBERNETES = tuple(path for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")) if path.name != "kustomization.yaml")
VARIABLE = re.compile(r"\$\{([A-Z_]+)(?::([-?])([^}]*))?\}")

Document = dict[str, Any]


def documents(path: Path) -> list[Document]:
    """Every YAML document of a file. Some are read when tests are collected, so the parser is the one in C."""
    return [each for each in yaml.load_all(path.read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) if each]


def operations() -> str:
    """The text of the operations guide."""
    return (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")


def shown_lines() -> list[str]:
    """Every command line in it; continued lines are joined, and so are the parts of a pipe."""
    blocks = re.findall(r"^```sh\n(.*?)^```", operations(), re.MULTILINE | re.DOTALL)
    joined = [re.sub(r"\\\n\s*|(?<=\|)\n\s*", " ", block) for block in blocks]
    return [line for block in joined for line in block.splitlines() if line]


def compose() -> Document:
    (document,) = documents(ROOT / "docker-compose.yml")
    return document


def kubernetes_objects() -> list[Document]:
    return [document for path in KUBERNETES for document in documents(path)]


def pod_specs() -> Iterator[tuple[str, Document]]:
    """Name and pod of every workload in the cluster."""
    for document in kubernetes_objects():
        spec = document.get("spec", {})
        if document["kind"] == "CronJob":
            spec = spec["jobTemplate"]["spec"]
        if "template" in spec:
            yield document["metadata"]["name"], spec["template"]["spec"]


def alerts() -> list[Document]:
    (document,) = documents(DEPLOY / "prometheus" / "tunefarm-alerts.yml")
    return [rule for group in document["groups"] for rule in group["rules"]]


def dashboard() -> Document:
    document: Document = json.loads((DEPLOY / "grafana" / "tunefarm.json").read_text(encoding="utf-8"))
    return document


def interpolated(text: str, values: dict[str, str]) -> str:
    """``text`` with compose's variables substituted. Raises KeyError for a required variable without a value."""

    def value(match: re.Match[str]) -> str:
        name, kind, default = match[1], match[2], match[3]
        if values.get(name):
            return values[name]
        if kind == "-":
            return str(default)
        raise KeyError(name)

    return VARIABLE.sub(value, text)
