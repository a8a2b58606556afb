"""Starts a server and a Prometheus, and compares what they say with each other and with what is in ops/ and the manual.

usage: observe.py PROMETHEUS_FOLDER LEASEHOLD FOLDER, in which FOLDER is empty. Everything happens in a network of its own.
"""

import http.server
import json
import os
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from opentelemetry.proto.collector.trace.v1 import trace_service_pb2

SECONDS_MAX = 300
SERVER = "http://127.0.0.1:8080"
PROMETHEUS = "http://127.0.0.1:9090"
COLLECTOR = "http://127.0.0.1:4318"
OPENMETRICS = {"Accept": "application/openmetrics-text; version=1.0.0"}
# The name is prescribed by a document, and has an abbreviated unit.
ALLOWED = ["lock_op_latency_ms metric names should not contain abbreviated units"]
# Whatever has nothing to show in so short a time: it needs settings or trouble.
NAME = re.compile(r"\b(?:leasehold|locks?|process)_[a-z0-9_]+|\bup\b")


def main():
    if os.environ.get("OBSERVE_INSIDE"):
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return observe(*sys.argv[1:])
    unshare = ["unshare", "--net", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0:
        unshare.append("--map-root-user")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("LEASEHOLD_")}
    inside = [*unshare, sys.executable, __file__, *sys.argv[1:]]
    sys.exit(subprocess.run(inside, env={**environment, "OBSERVE_INSIDE": "1"}, check=False).returncode)


def observe(programs, leasehold, folder):
    spans = collector()
    flags = ["--data", f"{folder}/data", "--backup-dir", f"{folder}/backups", "--audit-file", f"{folder}/audit"]
    flags += ["--otlp-endpoint", COLLECTOR, "--otlp-sample", "0", "--log", "error"]
    start([leasehold, "serve", *flags], f"{folder}/server.log", f"{SERVER}/readyz")
    for name in ("nightly", "weekly"):
        subprocess.run([leasehold, "run", "--url", SERVER, name, "--", "true"], check=True)
    lint(programs)
    known = names()
    write_config(folder)
    options = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/tsdb", "--web.listen-address=127.0.0.1:9090"]
    start([f"{programs}/prometheus", *options], f"{folder}/prometheus.log", f"{PROMETHEUS}/-/ready")
    check_scraped()
    check_alerts(known)
    check_dashboard(known)
    check_traces(spans)


def collector():
    """Listens for traces, and returns the list that they go to: each as the official messages decode it."""
    spans = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = trace_service_pb2.ExportTraceServiceRequest.FromString(body)
            if (self.path, self.headers["Content-Type"]) == ("/v1/traces", "application/x-protobuf"):
                for resource in request.resource_spans:
                    spans.extend((resource.resource, span) for scope in resource.scope_spans for span in scope.spans)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 4318), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return spans


def check_traces(spans):
    """A sampled trace arrives as the client sent it. One that is not sampled, or has no trace context, does not."""
    trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
    before = time.time_ns()
    for other, flags in (("a" * 32, "00"), (trace, "01")):
        fetch(f"{SERVER}/v1/locks/nightly", {"traceparent": f"00-{other}-{parent}-{flags}", "X-Request-ID": "mine"})
    if not eventually(lambda: spans):
        sys.exit("no trace has come")
    [(resource, span)] = spans
    value = lambda attribute: attribute.value.string_value or attribute.value.int_value
    found = {attribute.key: value(attribute) for attribute in [*resource.attributes, *span.attributes]}
    wanted = {
        "service.name": "leasehold", "http.request.method": "GET", "http.route": "/v1/locks/{lock}", "http.response.status_code": 200,
        "client.address": "127.0.0.1", "enduser.id": "anonymous", "leasehold.request_id": "mine",
    }
    if wrong := {key: found.get(key) for key in wanted if found.get(key) != wanted[key]}:
        sys.exit(f"attributes of the span: {wrong}")
    ids = (span.trace_id.hex(), span.parent_span_id.hex(), len(span.span_id), span.kind, span.name)
    if ids != (trace, parent, 8, span.SPAN_KIND_SERVER, "GET /v1/locks/{lock}"):
        sys.exit(f"the span is {ids}")
    if not before <= span.start_time_unix_nano < span.end_time_unix_nano <= time.time_ns():
        sys.exit(f"the span began at {span.start_time_unix_nano} and ended at {span.end_time_unix_nano}")
    print("a trace came as OTLP, with its parent")


def start(command, log, url):
    """Runs in the background, until this process ends; returns when it answers."""
    with open(log, "wb") as file:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file)
    if not eventually(lambda: process.poll() is not None or is_there(url)) or process.poll() is not None:
        with open(log, encoding="utf-8") as file:
            sys.exit(f"{command[0]} does not answer at {url}:\n{file.read()}")


def is_there(url):
    try:
        return bool(fetch(url))
    except (urllib.error.URLError, ConnectionError):
        return False


def eventually(condition):
    began = time.monotonic()
    while time.monotonic() - began < SECONDS_MAX:
        if condition():
            return True
        time.sleep(0.1)
    return False


def fetch(url, headers=()):
    with urllib.request.urlopen(urllib.request.Request(url, headers=dict(headers)), timeout=60) as answer:
        return answer.read().decode()


def lint(programs):
    checked = subprocess.run(
        [f"{programs}/promtool", "check", "metrics"], input=fetch(f"{SERVER}/metrics"), capture_output=True, text=True, check=False
    )
    found = [line for line in (checked.stdout + checked.stderr).splitlines() if line]
    if found != ALLOWED:
        sys.exit("promtool check metrics says:\n" + "\n".join(found))
    print("promtool: nothing is wrong with /metrics but what a document prescribes")


def names():
    """Of every series there can be: the manual has them all, which another test holds it to."""
    with open("docs/reference/metrics.md", encoding="utf-8") as file:
        told = set(re.findall(r"`((?:leasehold|locks?|process)_[a-z0-9_]+)", file.read()))
    shown = set(re.findall(r"^# TYPE (\S+) ", fetch(f"{SERVER}/metrics"), re.M))
    if missing := shown - told:
        sys.exit(f"docs/reference/metrics.md does not have: {sorted(missing)}")
    return told | {name + part for name in told for part in ("_bucket", "_sum", "_count")} | {"up"}


def write_config(folder):
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": [os.path.abspath("ops/alerts.yml")],
        "scrape_configs": [
            {"job_name": "leasehold", "static_configs": [{"targets": ["127.0.0.1:8080"]}]},
        ],
    }
    # JSON is YAML.
    with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as file:
        json.dump(config, file)


def query(expression):
    answer = json.loads(fetch(f"{PROMETHEUS}/api/v1/query?" + urllib.parse.urlencode({"query": expression})))
    return answer["data"]["result"]


def check_scraped():
    """What Prometheus has is what the server says; it asks for OpenMetrics, and what it is told in it is the same."""
    acquired = 'lock_acquire_total{result="success",job="leasehold"}'
    if not eventually(lambda: [found["value"][1] for found in query(acquired)] == ["2"]):
        sys.exit(f"{acquired} is {query(acquired)}, but two were acquired")
    def target():
        [found] = json.loads(fetch(f"{PROMETHEUS}/api/v1/targets"))["data"]["activeTargets"]
        return found["health"], found["lastError"]

    # A scrape on a busy machine may be late.
    if not eventually(lambda: target() == ("up", "")):
        sys.exit(f"the target is {target()}")
    series = lambda text: {re.split(r" (?=\S+$)", line)[0] for line in text.splitlines() if not line.startswith("#")}
    older, newer = series(fetch(f"{SERVER}/metrics")), series(fetch(f"{SERVER}/metrics", OPENMETRICS))
    # The very answers that were compared are counted by the second.
    if older - newer or len(newer - older) > 1:
        sys.exit(f"the formats differ: {older ^ newer}")
    stored = int(query('count({job="leasehold",__name__!~"up|scrape_.*"})')[0]["value"][1])
    if stored < len(older) - 5:
        sys.exit(f"Prometheus has {stored} series, /metrics has {len(older)}")
    print(f"Prometheus scrapes {stored} series")


def check_known(where, expression, known):
    if unknown := set(NAME.findall(re.sub(r"\{[^}]*\}", "", expression))) - known - {"le"}:
        sys.exit(f"{where}: there is no metric {sorted(unknown)}")


def check_alerts(known):
    [group] = json.loads(fetch(f"{PROMETHEUS}/api/v1/rules"))["data"]["groups"]
    with open("docs/reference/alerts.md", encoding="utf-8") as file:
        told = re.findall(r"^### (Leasehold\w+)$", file.read(), re.M)
    with open("ops/alerts_test.yml", encoding="utf-8") as file:
        tested = re.findall(r"- name: (\w+) (fires|does not fire)$", file.read(), re.M)
    rules = [rule["name"] for rule in group["rules"]]
    if sorted(rules) != sorted(told):
        sys.exit(f"ops/alerts.yml and docs/reference/alerts.md differ: {set(rules) ^ set(told)}")
    if missing := {(name, how) for name in rules for how in ("fires", "does not fire")} - set(tested):
        sys.exit(f"not in ops/alerts_test.yml: {sorted(missing)}")

    def evaluated():
        [group] = json.loads(fetch(f"{PROMETHEUS}/api/v1/rules"))["data"]["groups"]
        return all(rule["health"] == "ok" for rule in group["rules"])

    if not eventually(evaluated):
        sys.exit("an alert cannot be evaluated")
    for rule in group["rules"]:
        check_known(rule["name"], rule["query"], known)
    if firing := query('ALERTS{alertstate="firing"}'):
        sys.exit(f"alerts of a server that is well: {firing}")
    print(f"{len(rules)} alerts are tested, evaluated and in the manual, and none fires")


def check_dashboard(known):
    with open("ops/dashboard.json", encoding="utf-8") as file:
        panels = [panel for panel in json.load(file)["panels"] if panel["type"] != "row"]
    n_empty = 0
    for panel in panels:
        for target in panel["targets"]:
            expression = target["expr"].replace("$instance", ".*")
            check_known(panel["title"], expression, known)
            # An expression that makes no sense is refused with 400, which raises.
            n_empty += not query(expression)
    print(f"{len(panels)} panels of the dashboard are understood; {n_empty} expressions have nothing to show yet")


main()
