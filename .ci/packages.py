"""What `.ci/packages` does with an installed program.

    packages.py use BINARY STORE COMMAND…     the command is BINARY's version, shows the demo, serves it to psycopg
    packages.py manifest FILE                 the arguments of a manifest's container and the probes, as JSON
    packages.py starts BINARY FOLDER JSON     what manifest, Dockerfile and unit start is ready, and stops by SIGTERM
"""

import json
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path

PASSWORD = "packages-only"
ENVIRONMENT = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "KEYSPAN_PASSWORD": PASSWORD}
# Seconds until a server has to listen.
START_MAX = 60


def run(command):
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


@contextmanager
def served(command, lines):
    """A server; gives the first `lines` lines of its standard output, and stops it by SIGTERM."""
    began = time.monotonic()
    with subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.PIPE, bufsize=0) as server:
        try:
            said = b""
            while said.count(b"\n") < lines:
                left = began + START_MAX - time.monotonic()
                assert left > 0 and select.select([server.stdout], [], [], left)[0], f"{command}: no answer, but {said}"
                part = os.read(server.stdout.fileno(), 4096)
                assert part, f"{command}: ended after {said}"
                said += part
            print(f"listens after {time.monotonic() - began:.2f} s")
            yield said.decode()
            server.send_signal(signal.SIGTERM)
            assert (code := server.wait(30)) == 0, f"{command}: exit code {code} after SIGTERM"
        finally:
            server.kill()


def count(said, sql):
    import psycopg

    host, port = re.search(r"listening on (\S+):(\d+)", said).groups()
    host = "127.0.0.1" if host == "0.0.0.0" else host
    with psycopg.connect(host=host, port=port, user="keyspan", dbname="keyspan", password=PASSWORD) as connection:
        return connection.execute(sql).fetchone()[0]


def use(binary, store, *command):
    built, installed = run([binary, "--version"]), run([*command, "--version"])
    assert built == installed, f"{installed} instead of {built}"
    assert re.fullmatch(r"keyspan \d+\.\d+\.\d+ \(commit (unknown|[0-9a-f]{12}), store format \d+\)\n", built), built
    options = ["--store", store, "--listen", "127.0.0.1:0"]
    demo = run([*command, "demo", "--exit", "--readings", "1000", *options])
    assert "58665" in demo and "Ranges: [JFK#SFO#" in demo, demo
    with served([*command, "serve", *options], 1) as said:
        assert (rows := count(said, "SELECT count(*) FROM flights")) == 336_776, rows


def manifest(path):
    import yaml

    documents = list(yaml.safe_load_all(Path(path).read_text()))
    [stateful] = [document for document in documents if document["kind"] == "StatefulSet"]
    [container] = stateful["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    probes = {container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "liveness", "readiness")}
    assert ports["http"] == 9433 and ports["postgres"] == 5433, ports
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    assert [claim["metadata"]["name"] for claim in stateful["spec"]["volumeClaimTemplates"]] == ["store"], mounts
    print(json.dumps({"arguments": container["args"], "probes": sorted(probes)}))


def starts(binary, folder, manifest):
    manifest = json.loads(manifest)
    packaging = Path(__file__).parent.parent / "gateway" / "packaging"
    [container] = re.findall(r"^CMD (\[.*\])$", (packaging / "Dockerfile").read_text(), re.M)
    service = (packaging / "debian" / "keyspan.service").read_text()
    [unit] = re.findall(r"^ExecStart=/usr/bin/keyspan (.*)$", service, re.M)
    starts = {
        "kubernetes.yaml": manifest["arguments"],
        "Dockerfile": json.loads(container),
        "keyspan.service": shlex.split(unit),
    }
    Path(f"{folder}/keyspan.toml").write_text(run([binary, "config", "--print"]))
    for name, arguments in starts.items():
        store = f"{folder}/store-{name}"
        os.makedirs(store)
        # Free ports, and a store below the folder; everything else as it is.
        arguments = [re.sub(r"^((--(listen|http)=)?[\d.]+):\d+$", r"\1:0", argument) for argument in arguments]
        arguments = [argument.replace("/var/lib/keyspan", store).replace("/etc/keyspan", folder) for argument in arguments]
        assert any(store in argument for argument in arguments), arguments
        if not any("listen" in argument for argument in arguments):
            arguments += ["--listen", "127.0.0.1:0"]
        has_http = any("--http" in argument for argument in arguments)
        with served([binary, *arguments], 2 if has_http else 1) as said:
            assert count(said, "SELECT 42") == 42
            if has_http:
                port = re.search(r"metrics on http://\S+:(\d+)/", said)[1]
                for path in manifest["probes"]:
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
                        assert answer.status == 200, path
        print(f"ok: {name}")


{"use": use, "manifest": manifest, "starts": starts}[sys.argv[1]](*sys.argv[2:])
