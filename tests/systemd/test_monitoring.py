#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-or-later
#
# A real Prometheus reads the metrics as the manual recommends, by HTTP from a socket with Accept=yes; the alerts and the dashboard ask for
# metrics that exist; and the number of series does not depend on clients.

import contextlib
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.parse

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "integration"))
import running as running_daemons  # noqa: E402
from running import client, scratch_directory  # noqa: E402
from checks import check, eventually, sum_up  # noqa: E402

MONITORING = os.path.join(HERE, "..", "..", "systemd", "monitoring")
if not shutil.which("promtool"):
    print("0 passed, 0 failed, 1 skipped: monitoring needs prometheus")
    sys.exit(0)


def expect(sentence, true, shown="it is not so"):
    check(sentence, "" if true else [shown])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def started(log, *command, **options):
    with open(log, "w", encoding="utf-8") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, **options)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(60)


def get(port, path, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    return answer, answer.read().decode()


def query(port, expression):
    """The series of an answer, or None after an error."""
    answer = json.loads(get(port, "/api/v1/query?query=" + urllib.parse.quote(expression))[1])
    return answer["data"]["result"] if answer["status"] == "success" else None


def is_up(port, wanted):
    with contextlib.suppress(OSError, http.client.HTTPException, ValueError):
        return [series["value"][1] for series in query(port, 'up{job="userevd"}') or []] == [wanted]
    return False


# Rules and dashboard by themselves.

def promtool(directory, *arguments):
    return subprocess.run(["promtool", *arguments], cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def check_files(directory):
    for name in os.listdir(MONITORING):
        shutil.copy(os.path.join(MONITORING, name), directory)
    shutil.copy(os.path.join(HERE, "monitoring_rules.yml"), directory)
    for sentence, *arguments in (("Prometheus takes the configuration", "check", "config", "prometheus.yml"),
                                 ("… and the alerts", "check", "rules", "userevd-rules.yml"),
                                 ("each alert fires where it should, and no other", "test", "rules", "monitoring_rules.yml")):
        told = promtool(directory, *arguments)
        expect(sentence, told.returncode == 0, told.stdout)
    with open(directory + "/monitoring_rules.yml", encoding="utf-8") as tests, open(directory + "/userevd-rules.yml", encoding="utf-8") as rules:
        tested, made = set(re.findall(r"alertname=\"(\w+)\"", tests.read())), set(re.findall(r"alert: (\w+)", rules.read()))
    expect("each alert has such a test", tested == made, tested ^ made)


def expressions(directory):
    """[(where, PromQL)] of the alerts and of the dashboard, whose variables have values."""
    with open(directory + "/grafana-dashboard.json", encoding="utf-8") as file:
        dashboard = json.load(file)
    with open(directory + "/userevd-rules.yml", encoding="utf-8") as file:
        found = [("an alert", line) for line in re.findall(r"^ *expr: (.*)$", file.read(), re.M)]
    panels = dashboard["panels"]
    expect("the panels of the dashboard have titles, descriptions, numbers and places of their own",
           all(panel["title"] and panel["description"] for panel in panels) and
           len({panel["id"] for panel in panels}) == len({tuple(panel["gridPos"].values()) for panel in panels}) == len(panels), panels)
    values = {"$instance": ".*", "$__rate_interval": "1m"}
    for panel in panels:
        for target in panel["targets"]:
            expression = target["expr"]
            for name, value in values.items():
                expression = expression.replace(name, value)
            found.append((panel["title"], expression))
    check("each variable of the dashboard is known", [one for one in found if "$" in one[1]])
    return found


# With a daemon and a Prometheus.

def check_http(port):
    answer, text = get(port, "/metrics")
    expect("HTTP has the metrics, and their length", answer.status == 200 and text.endswith("# EOF\n") and
           int(answer.headers["Content-Length"]) == len(text), (answer.status, text[-100:]))
    expect("… in the older format", answer.headers["Content-Type"].startswith("text/plain; version=0.0.4"), answer.headers)
    answer, _ = get(port, "/metrics", Accept="application/openmetrics-text; version=1.0.0")
    expect("… or as OpenMetrics", answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0"), answer.headers)
    answer, text = get(port, "/metrics", "HEAD")
    expect("HEAD has no text", answer.status == 200 and text == "", text)
    for sentence, status, path, method in (("another path is not found", 404, "/", "GET"), ("there is no other method", 405, "/metrics", "POST")):
        answer, text = get(port, path, method)
        expect(f"{sentence}, with a sentence", answer.status == status and text.endswith(".\n"), (answer.status, text))
    for sentence, text in (("what is no request", b"\x00\xff\n\n"), ("a header without end", b"GET /metrics HTTP/1.1\r\n" + b"x: y\r\n" * 3000)):
        with socket.create_connection(("127.0.0.1", port), 60) as connection:
            with contextlib.suppress(OSError):
                connection.sendall(text)
                connection.shutdown(socket.SHUT_WR)
            with contextlib.suppress(ConnectionResetError):
                expect(f"{sentence} is refused", connection.recv(100).startswith(b"HTTP/1.1 400"))


def series_of(daemon):
    return len([line for line in daemon.ctl("metrics").stdout.splitlines() if not line.startswith("#")])


def check_series(daemon):
    first = client(daemon, b"first", b"an_event u32 n", b"wrong long n")
    before = series_of(daemon)
    many = [client(daemon, b"tenant%d" % i, b"an_event u32 n", b"wrong long n") for i in range(100)]
    expect("a hundred more tenants make no more series", series_of(daemon) == before, (before, series_of(daemon)))
    expect("… and are counted", "userevd_section_tenants{section=\"none\"} 101\n" in daemon.ctl("metrics").stdout, daemon.ctl("metrics").stdout)
    for connection in many:
        connection.close()
    expect("the refusals of tenants that have gone stay counted", eventually(lambda: daemon.json("status")["tenants"] == 1) and
           "userevd_refusals_total{section=\"none\",reason=\"bad-description\"} 101\n" in daemon.ctl("metrics").stdout, daemon.ctl("metrics").stdout)
    for i in range(4):
        client(daemon, b"churn", *(b"name_%d_%d u32 n" % (i, j) for j in range(100))).close()
        eventually(lambda: daemon.json("status")["events"] == 1)
        daemon.ctl("metrics")
        with client(daemon, b"churn", *(b"name_%d_%d u32 n" % (i, j) for j in range(100))):
            seen = set(re.findall(r'^userevd_event_on\{event="([^"]*)"', daemon.ctl("metrics").stdout, re.M))
            check_series.names |= seen
        eventually(lambda: daemon.json("status")["events"] == 1)
    expect("a tenant that makes new names again and again gets 256 of them into the metrics", len(check_series.names) == 256, len(check_series.names))
    first.close()


check_series.names = set()


def check_prometheus(directory, daemon, port):
    server = free_port()
    with open(directory + "/prometheus.yml", encoding="utf-8") as file:
        text = file.read().replace("127.0.0.1:9568", f"127.0.0.1:{port}")
    with open(directory + "/here.yml", "w", encoding="utf-8") as file:
        file.write("global: {scrape_interval: 1s, evaluation_interval: 1s}\n" + text)
    with started(directory + "/prometheus.log", "prometheus", "--config.file=" + directory + "/here.yml", "--storage.tsdb.path=" + directory + "/data",
                 f"--web.listen-address=127.0.0.1:{server}"):
        expect("Prometheus scrapes the daemon", eventually(lambda: is_up(server, "1")), open(directory + "/prometheus.log", encoding="utf-8").read())
        with client(daemon, b"program", b"seen_event u32 n", b"wrong long n"):
            expect("… and sees an event that is off", eventually(lambda: [one["value"][1] for one in query(server, 'userevd_event_on{event="seen_event"}')] == ["0"]))
            daemon.ctl("enable", "seen_event")
            expect("… and then on", eventually(lambda: [one["value"][1] for one in query(server, 'userevd_event_on{event="seen_event"}')] == ["1"]))
            expect("… and its tenant's refusal", eventually(lambda: query(server, 'userevd_refusals_total{reason="bad-description"}')))
            known = {series["metric"]["__name__"] for series in query(server, '{__name__=~"userevd_.*"}')}
        for where, expression in expressions(directory):
            told = query(server, expression)
            asked = set(re.findall(r"userevd_\w+", expression))
            expect(f"{where}: Prometheus understands {expression}, and its metrics exist", told is not None and asked <= known, asked - known)
        daemon.write_policy("nonsense\n")
        daemon.process.send_signal(signal.SIGHUP)
        expect("a policy that is refused is an alert soon", eventually(
            lambda: query(server, 'ALERTS{alertname="UserevdPolicyRefused", alertstate="pending"}')))
        daemon.stop()
        expect("a daemon that has ended is one, too", eventually(lambda: is_up(server, "0") and query(server, 'ALERTS{alertname="UserevdDown"}')))


class Daemon(running_daemons.Daemon):
    def __init__(self, directory):
        super().__init__(directory, "--backend=embedded", "--tenants=process", f"--policy={directory}/policy")
        os.makedirs(directory + "/policy")
        self.write_policy("")

    def write_policy(self, text):
        with open(self.directory + "/policy/1.conf", "w", encoding="utf-8") as file:
            file.write(text)


def main():
    with scratch_directory() as directory:
        check_files(directory)
        daemon, port = Daemon(directory), free_port()
        if not daemon.start():
            raise OSError(daemon.log())
        with started(directory + "/activate.log", "systemd-socket-activate", f"--listen=127.0.0.1:{port}", "--accept", "--inetd",
                     "-E", "USEREV_CONTROL_SOCKET=" + daemon.control, running_daemons.CTL, "metrics", "--http"):
            eventually(lambda: "istening" in open(directory + "/activate.log", encoding="utf-8").read())
            check_http(port)
            check_prometheus(directory, daemon, port)
            answer, text = get(port, "/metrics")
            expect("without a daemon the answer says where to look", answer.status == 503 and "journal" in text, text)
        expect("it starts again", daemon.write_policy("") or daemon.start(), daemon.log())
        check_series(daemon)
        daemon.stop()
    sum_up()


main()
