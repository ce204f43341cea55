"""The chart for Kubernetes and the file for Docker Compose: rendered and checked without either."""

import re
import subprocess
import sys
from pathlib import Path

import freestone
import pytest
import yaml
from conftest import TARGET

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import chart  # noqa: E402
from release import packages  # noqa: E402

COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())
FREESTONE = TARGET / "release" / "freestone"
FOLDERS = "/etc/freestone/|/var/lib/freestone/"


def made(**values):
    """The objects of the chart by kind and name."""
    objects = chart.objects(chart.render(values))
    return {(one["kind"], one["metadata"]["name"]): one for one in objects}


def pods(objects):
    return {one["metadata"]["labels"]["app.kubernetes.io/component"]: one["spec"]["template"] for one in objects.values() if one["kind"] == "Deployment"}


def refusal(arguments):
    """What the program says of arguments whose files are not here. If it did not know an option, its status would be 2."""
    ran = subprocess.run([FREESTONE, *arguments], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1, ran.stderr
    return ran.stderr


def test_the_chart_has_a_server_workers_and_a_volume():
    objects = made()
    assert set(objects) == {
        ("Service", "sales-freestone"),
        ("Deployment", "sales-freestone"),
        ("Service", "sales-freestone-workers"),
        ("Deployment", "sales-freestone-workers"),
        ("PersistentVolumeClaim", "sales-freestone"),
    }
    assert objects["Deployment", "sales-freestone-workers"]["spec"]["replicas"] == 3
    for (kind, _), one in objects.items():
        assert one["apiVersion"] == {"Service": "v1", "PersistentVolumeClaim": "v1", "Deployment": "apps/v1"}[kind]
        assert one["metadata"]["labels"]["app.kubernetes.io/version"] == freestone.__version__


def test_services_lead_to_their_pods():
    objects = made()
    found = pods(objects)
    for name, component in (("sales-freestone", "server"), ("sales-freestone-workers", "worker")):
        service, pod = objects["Service", name]["spec"], found[component]
        assert service["selector"].items() <= pod["metadata"]["labels"].items()
        assert objects["Deployment", name]["spec"]["selector"]["matchLabels"] == service["selector"]
        ports = {port["name"]: port["containerPort"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"]: port["port"] for port in service["ports"]} == ports
        arguments = pod["spec"]["containers"][0]["args"]
        assert {int(port) for port in re.findall(r"=0\.0\.0\.0:(\d+)", " ".join(arguments))} == set(ports.values())
    # Each name of a service without an address stands for the pods behind it.
    assert objects["Service", "sales-freestone-workers"]["spec"]["clusterIP"] == "None"
    assert "--cluster=dns:sales-freestone-workers:5578" in found["server"]["spec"]["containers"][0]["args"]


@pytest.mark.parametrize("component", ["server", "worker"])
def test_pods_have_no_rights_that_they_do_not_need(component):
    spec = pods(made())[component]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True and spec["securityContext"]["runAsUser"] == 10001
    for container in spec["containers"] + spec["initContainers"]:
        context = container["securityContext"]
        assert (context["allowPrivilegeEscalation"], context["readOnlyRootFilesystem"]) == (False, True)
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["image"] == f"freestone:{freestone.__version__}"
    assert spec["containers"][0]["resources"]["limits"]["memory"]
    # The tasks of a worker may take 60 seconds to end.
    assert component != "worker" or spec["terminationGracePeriodSeconds"] > 60


@pytest.mark.parametrize("component", ["server", "worker"])
def test_all_files_that_arguments_name_are_mounted(component):
    spec = pods(made())[component]["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    copied = {item["path"] for volume in volumes.values() for item in volume.get("secret", {}).get("items", [])}
    named = set(re.findall(r"/etc/freestone/([\w.]+)", " ".join(spec["containers"][0]["args"])))
    assert named and named <= copied
    for container in spec["containers"] + spec["initContainers"]:
        assert {mount["name"] for mount in container["volumeMounts"]} <= set(volumes)
    folders = {mount["mountPath"] for mount in spec["containers"][0]["volumeMounts"]}
    assert {"/var/lib/freestone", "/etc/freestone"} <= folders
    assert any("file:///var/lib/freestone/" in argument for argument in spec["containers"][0]["args"])


def test_the_program_takes_the_arguments_of_chart_and_compose():
    for spec in (pods(made(server={"arguments": ["--statement-timeout=5min"]}))["server"]["spec"], pods(made())["worker"]["spec"]):
        assert re.search(FOLDERS, refusal(spec["containers"][0]["args"]))
    for service in COMPOSE["services"].values():
        assert re.search(FOLDERS, refusal(service["command"]))


def test_values_change_what_is_rendered():
    objects = made(
        image={"repository": "registry.example/freestone", "tag": "9"},
        persistence={"existingClaim": "mine"},
        worker={"replicas": 5, "nodeSelector": {"disk": "fast"}, "extraContainers": [{"name": "proxy", "image": "proxy:1"}]},
        podAnnotations={"a/b": "c"},
    )
    assert ("PersistentVolumeClaim", "sales-freestone") not in objects
    worker = objects["Deployment", "sales-freestone-workers"]["spec"]
    assert worker["replicas"] == 5 and worker["template"]["spec"]["nodeSelector"] == {"disk": "fast"}
    assert [container["image"] for container in worker["template"]["spec"]["containers"]] == ["registry.example/freestone:9", "proxy:1"]
    assert worker["template"]["metadata"]["annotations"] == {"a/b": "c"}
    assert worker["template"]["spec"]["volumes"][0]["persistentVolumeClaim"] == {"claimName": "mine"}
    names = {name for _, name in ((one["kind"], one["metadata"]["name"]) for one in chart.objects(chart.render(release="my-freestone-db")))}
    assert names == {"my-freestone-db", "my-freestone-db-workers"}


def test_wrong_values_and_templates_are_errors(tmp_path):
    for values, message in [
        ({"workers": {"replicas": 5}}, "there is no value `workers`"),
        ({"secrets": {"token": ""}}, "secrets.token is the name of a secret"),
    ]:
        with pytest.raises(chart.ChartError, match=message):
            chart.render(values)
    for template, message in [
        ("{{ .Values.missing }}", "not in the values"),
        ("{{ if .Values.store }}x", "no end"),
        ("{{ end }}", "without a beginning"),
        ('{{ include "nothing" . }}', "no template `nothing`"),
        ("{{ lookup .Values.store }}", "function `lookup`"),
        ("{{ .Values.store .Values.store }}", "not one value"),
    ]:
        folder = tmp_path / "chart"
        (folder / "templates").mkdir(parents=True, exist_ok=True)
        for name in ("Chart.yaml", "values.yaml"):
            (folder / name).write_text((chart.CHART / name).read_text())
        (folder / "templates" / "t.yaml").write_text(template)
        with pytest.raises(chart.ChartError, match=message):
            chart.render(chart=folder)


def test_templates_are_rendered_as_by_helm(tmp_path):
    """The cases of white space, scopes and pipelines that the chart uses, with what Go's templates make of them."""
    defined = {}
    parsed = chart.parse('{{- define "n" -}}\n{{ .a }}\n{{- end -}}\n{{/* no text */}}', "t", defined)
    scope = chart.Scope({"a": 1, "l": ["x", 2], "m": {"k": [True]}, "e": ""}, defined)
    assert scope.render(parsed, scope.root).strip() == ""
    for template, expected in [
        ("a {{- .a }} b", "a1 b"),
        ("a\n  {{- with .m }}\n  b: {{ .k | toYaml | nindent 2 }}\n  {{- end }}\n", "a\n  b: \n  - true\n"),
        ("{{ range .l }}[{{ . | quote }}{{ $.a }}]{{ end }}", '["x"1]["2"1]'),
        ('{{ .e | default (include "n" .) }}', "1"),
        ("{{ if not .e }}y{{ else }}n{{ end }}{{ if .e }}y{{ else if .a }}m{{ else }}n{{ end }}", "ym"),
        ('{{ printf "%s-%s" "abcd" "e-" | trunc 6 | trimSuffix "-" }}', "abcd-e"),
    ]:
        assert scope.render(chart.parse(template, "t", defined), scope.root) == expected, template


def test_compose_has_a_server_and_workers():
    server, worker = COMPOSE["services"]["server"], COMPOSE["services"]["worker"]
    assert server["ports"] == ["5577:5577", "5432:5432"] and "ports" not in worker
    assert worker["deploy"]["replicas"] == 3 and "--cluster=dns:worker:5578" in server["command"]
    for service in (server, worker):
        assert service["user"] == "10001:10001" and service["read_only"] is True
        assert service["cap_drop"] == ["ALL"] and service["security_opt"] == ["no-new-privileges:true"]
        targets = [volume["target"] if isinstance(volume, dict) else volume.split(":")[1] for volume in service["volumes"]]
        assert targets == ["/var/lib/freestone", "/etc/freestone", "/tmp"]
        assert service["volumes"][0].split(":")[0] in COMPOSE["volumes"]
    ports = {port.split(":")[1] for port in server["ports"]}
    assert ports == set(re.findall(r"0\.0\.0\.0:(\d+)", " ".join(server["command"])))


def test_users_and_folders_are_those_of_the_image():
    """The image, the chart and the compose file name the same user and folders."""
    image = (ROOT / "tools" / "release" / "Dockerfile").read_text()
    assert "USER 10001:10001" in image and "VOLUME /var/lib/freestone" in image
    assert packages.container_problems(image.replace("@ARCHIVE@.tar.gz", "."), ROOT) == []
    about = yaml.safe_load((chart.CHART / "Chart.yaml").read_text())
    assert about["version"] == about["appVersion"] == freestone.__version__
