"""Alerts and dashboard query existing metrics by existing labels."""

import re

import promql_parser
import pytest

from tests.deploy.source import DEPLOY, ROOT, alerts, dashboard, documents
from tunefarm_services.telemetry.farm_collector import FAMILIES
from tunefarm_services.telemetry.fleet_collector import FLEET_FAMILIES
from tunefarm_services.telemetry.metrics import Metrics

METRIC = re.compile(r"\b(tunefarm_[a-z_]+)(?:\{([^}]*)\})?")
PANELS = [panel for panel in dashboard()["panels"] if panel["type"] != "row"]
QUERIES = {
    f"panel {panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
}
QUERIES |= {f"alert {rule['alert']}": rule["expr"] for rule in alerts()}


def metrics() -> dict[str, set[str]]:
    """Every metric with its labels."""
    found = {name: set(labels) for name, (_text, labels) in (FAMILIES | FLEET_FAMILIES).items()}
    for metric in vars(Metrics("api")).values():
        name = getattr(metric, "_name", None)
        if name is None:
            continue
        labels = set(metric._labelnames)
        endings = {"counter": ("_total",), "histogram": ("_bucket", "_count", "_sum")}.get(metric._type, ("",))
        for ending in endings:
            found[name + ending] = labels | ({"le"} if ending == "_bucket" else set())
    return found


METRICS = metrics()


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_query_parses_and_uses_existing_metrics(name):
    query = QUERIES[name]
    promql_parser.parse(query)
    asked = METRIC.findall(query)
    assert asked or "up{" in query
    for metric, selector in asked:
        assert metric in METRICS, metric
        labels = {part.split("=")[0].rstrip("!") for part in re.findall(r'\w+[!=]=?~?"', selector)}
        assert {label.split("=")[0].rstrip("!~") for label in labels} <= METRICS[metric] | {"job", "instance"}


@pytest.mark.parametrize("name", sorted(QUERIES))
def test_query_groups_by_existing_labels(name):
    query = QUERIES[name]
    grouped = {label.strip() for group in re.findall(r"\bby \(([^)]*)\)", query) for label in group.split(",")}
    known = {label for metric, _ in METRIC.findall(query) for label in METRICS[metric]}
    assert grouped <= known | {"instance", "job"}


def test_alerts_have_severity_and_documentation():
    document = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    for rule in alerts():
        assert rule["labels"]["severity"] in {"page", "ticket"}
        assert rule["annotations"]["summary"]
        assert f"`{rule['alert']}`" in document, rule["alert"]
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())


def test_jobs_of_alerts_are_scraped():
    (settings,) = documents(DEPLOY / "prometheus" / "prometheus.yml")
    scraped = {job["job_name"] for job in settings["scrape_configs"]}
    asked = {job for rule in alerts() for job in re.findall(r'job="([^"]+)"', rule["expr"])}
    assert asked <= scraped
    assert settings["rule_files"] == ["tunefarm-alerts.yml"]
    assert (DEPLOY / "prometheus" / "tunefarm-alerts.yml").is_file()


def test_panels_have_unique_ids_and_places():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for place in (panel["gridPos"] for panel in panels):
        columns = range(place["x"], place["x"] + place["w"])
        cells = {(x, y) for x in columns for y in range(place["y"], place["y"] + place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not cells & taken
        taken |= cells


def test_events_of_queries_are_logged():
    source = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("*/tunefarm*/**/*.py"))
    logged = set(re.findall(r'log\.(?:info|warning|error|exception)\(\s*"([^"]+)"', source))
    for query in QUERIES.values():
        for pattern in re.findall(r'event=~?"([^"]+)"', query):
            assert [event for event in logged if re.fullmatch(pattern, event)], pattern


def test_defined_metrics_are_updated():
    source = "\n".join(path.read_text(encoding="utf-8") for path in ROOT.glob("*/tunefarm*/**/*.py"))
    names = [name for name, value in vars(Metrics("api")).items() if hasattr(value, "_name") and name != "build"]
    unused = [name for name in names if not re.search(rf"\.{name}\b(?!\s*=\s*(Counter|Gauge|Histogram))", source)]
    assert unused == []
