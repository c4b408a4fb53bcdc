"""The manifests are valid by Kubernetes' own schemas, and their pods keep the restricted security standard."""

import subprocess
from shutil import which

import kubernetes_validate
import pytest

from tests.deploy.source import DEPLOY, Document, documents, kubernetes_objects, pod_specs

VERSION = "1.31"
OBJECTS = {f"{each['kind']}/{each['metadata']['name']}": each for each in kubernetes_objects()}
PODS = dict(pod_specs())


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_an_object_is_valid_and_in_our_namespace(name):
    kubernetes_validate.validate(OBJECTS[name], VERSION, strict=True)
    if not name.startswith("Namespace/"):
        assert OBJECTS[name]["metadata"]["namespace"] == "tunefarm"


@pytest.mark.parametrize("name", sorted(PODS))
def test_a_pod_keeps_the_restricted_standard(name):
    pod = PODS[name]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    for container in pod["containers"]:
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize("name", ["tunefarm-api", "tunefarm-tuner", "tunefarm-worker-cpu"])
def test_a_pod_that_stays_has_probes_on_a_port_that_it_opens(name):
    (container,) = PODS[name]["containers"]
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports


def test_a_worker_owns_whole_processors():
    (container,) = PODS["tunefarm-worker-cpu"]["containers"]
    resources = container["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"]["cpu"].isdigit()


def test_no_secret_is_in_the_manifests_and_workers_get_none_of_the_database():
    assert not [name for name in OBJECTS if name.startswith("Secret/")]
    (container,) = PODS["tunefarm-worker-cpu"]["containers"]
    given = {source.get("secretRef", {}).get("name") for source in container["envFrom"]}
    assert given == {None, "tunefarm-broker-worker", "tunefarm-objects"}


def test_every_volume_and_account_that_a_pod_names_is_there():
    accounts = {each["metadata"]["name"] for each in OBJECTS.values() if each["kind"] == "ServiceAccount"}
    for pod in PODS.values():
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]} <= volumes
        assert pod["serviceAccountName"] in accounts


def test_every_policy_selects_pods_that_exist():
    labels = {label for each in OBJECTS.values() for label in labels_of(each)}
    for each in OBJECTS.values():
        if each["kind"] != "NetworkPolicy":
            continue
        selector = each["spec"]["podSelector"]
        named = set(selector.get("matchLabels", {}).values())
        named |= {value for rule in selector.get("matchExpressions", ()) for value in rule["values"]}
        assert named <= labels, each["metadata"]["name"]


def labels_of(each: Document) -> set[str]:
    spec = each.get("spec", {})
    template = spec.get("jobTemplate", {}).get("spec", spec).get("template", {})
    return set(template.get("metadata", {}).get("labels", {}).values())


def test_the_kustomization_has_every_file_and_image():
    (kustomization,) = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    present = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == present
    images = {container["image"] for pod in PODS.values() for container in pod["containers"]}
    assert {image["name"] for image in kustomization["images"]} == images


@pytest.mark.skipif(which("kubectl") is None, reason="no kubectl on this machine")
def test_kustomize_puts_it_together():
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes")]
    built = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert built.returncode == 0, built.stderr
    assert built.stdout.count("\nkind: ") >= len(OBJECTS)
