"""The manifests match Kubernetes' schemas, and their pods meet the restricted security standard."""

import subprocess
from shutil import which

import kubernetes_validate
import pytest

from tests.deploy.source import DEPLOY, Document, documents, kubernetes_objects, operations, pod_specs

VERSION = "1.31"
OBJECTS = {f"{each['kind']}/{each['metadata']['name']}": each for each in kubernetes_objects()}
PODS = dict(pod_specs())


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_object_is_valid_and_in_namespace(name):
    kubernetes_validate.validate(OBJECTS[name], VERSION, strict=True)
    if not name.startswith("Namespace/"):
        assert OBJECTS[name]["metadata"]["namespace"] == "tunefarm"


@pytest.mark.parametrize("name", sorted(PODS))
def test_pod_meets_the_restricted_standard(name):
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
def test_long_running_pod_has_probes_on_open_ports(name):
    (container,) = PODS[name]["containers"]
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports


def test_worker_owns_whole_processors():
    (container,) = PODS["tunefarm-worker-cpu"]["containers"]
    resources = container["resources"]
    assert resources["requests"] == resources["limits"]
    assert resources["limits"]["cpu"].isdigit()


def test_worker_has_node_name_and_space_for_libraries():
    pod = PODS["tunefarm-worker-cpu"]
    (container,) = pod["containers"]
    variables = {each["name"]: each for each in container["env"]}
    assert variables["TUNEFARM_WORKER_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    home = OBJECTS["ConfigMap/tunefarm"]["data"]["TUNEFARM_HOME"]
    (mount,) = [each for each in container["volumeMounts"] if each["mountPath"] == home]
    (volume,) = [each for each in pod["volumes"] if each["name"] == mount["name"]]
    # On the node's disk, which allows execution; memory would count as the worker's.
    assert volume["emptyDir"].keys() == {"sizeLimit"}
    assert int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) >= 2


def test_backup_pod_uses_only_its_claim():
    pod = PODS["tunefarm-backup"]
    assert {volume["name"] for volume in pod["volumes"]} == {"home", "authority", "backup"}
    (container,) = pod["containers"]
    assert {mount["mountPath"]: mount["name"] for mount in container["volumeMounts"]}["/backup"] == "backup"


def test_migration_can_be_applied_alone():
    label = "app.kubernetes.io/name"
    labelled = [
        name for name, each in OBJECTS.items() if each["metadata"].get("labels", {}).get(label) == "tunefarm-migrate"
    ]
    assert labelled == ["Job/tunefarm-migrate"]
    assert f"--selector {label}=tunefarm-migrate" in operations()


def test_network_policy_allows_traces_to_collector():
    policy = OBJECTS["NetworkPolicy/tunefarm-to-collector"]["spec"]
    (rule,) = policy["podSelector"]["matchExpressions"]
    assert set(rule["values"]) == {"tunefarm-api", "tunefarm-tuner"}
    assert [port["port"] for way in policy["egress"] for port in way["ports"]] == [4318]


def test_documented_images_match_the_manifests():
    (kustomization,) = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    for image in kustomization["images"]:
        assert f"docker push {image['newName']}:{image['newTag']}\n" in operations()


def test_manifests_contain_no_secrets():
    assert not [name for name in OBJECTS if name.startswith("Secret/")]
    (container,) = PODS["tunefarm-worker-cpu"]["containers"]
    given = {source.get("secretRef", {}).get("name") for source in container["envFrom"]}
    assert given == {None, "tunefarm-broker-worker", "tunefarm-objects"}


def test_referenced_volumes_and_accounts_exist():
    accounts = {each["metadata"]["name"] for each in OBJECTS.values() if each["kind"] == "ServiceAccount"}
    for pod in PODS.values():
        volumes = {volume["name"] for volume in pod["volumes"]}
        assert {mount["name"] for container in pod["containers"] for mount in container["volumeMounts"]} <= volumes
        assert pod["serviceAccountName"] in accounts


def test_network_policies_select_existing_pods():
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


def test_kustomization_lists_every_file_and_image():
    (kustomization,) = documents(DEPLOY / "kubernetes" / "kustomization.yaml")
    present = {path.name for path in (DEPLOY / "kubernetes").glob("*.yaml")} - {"kustomization.yaml"}
    assert set(kustomization["resources"]) == present
    images = {container["image"] for pod in PODS.values() for container in pod["containers"]}
    assert {image["name"] for image in kustomization["images"]} == images


@pytest.mark.skipif(which("kubectl") is None, reason="no kubectl on this machine")
def test_kustomize_builds_the_manifests():
    command = ["kubectl", "kustomize", str(DEPLOY / "kubernetes")]
    built = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert built.returncode == 0, built.stderr
    assert built.stdout.count("\nkind: ") >= len(OBJECTS)
