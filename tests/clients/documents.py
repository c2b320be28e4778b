"""Runs the blocks of docs/drivers.md against a server, and compares what they print with what stands below them.

    documents.py DRIVERS HOST PORT DATABASE USER PASSWORD

DRIVERS is the folder in which `.ci/drivers` has installed them. A block of a language that is not there is left out.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
drivers, host, port, database, user, password = Path(sys.argv[1]), *sys.argv[2:]
# What stands in the page, and what it is here.
PLACES = {
    "ana:secret@localhost:5433/altostrat": f"{user}:{password}@{host}:{port}/{database}",
    "localhost:5433/altostrat?user=ana&password=secret": f"{host}:{port}/{database}?user={user}&password={password}",
}


def command(language, text, folder):
    """How a block is run, or None if that is not possible here."""
    if language == "python":
        (folder / "block.py").write_text(text)
        return [drivers / "python/bin/python", folder / "block.py"], folder
    if language == "js" and shutil.which("node") and (drivers / "node/node_modules").is_dir():
        block = drivers / "node/block.cjs"
        block.write_text(text)
        return ["node", block], drivers / "node"
    if language == "go" and shutil.which("go"):
        for name in ("go.mod", "go.sum"):
            shutil.copy(HERE / "go" / name, folder / name)
        (folder / "main.go").write_text(text)
        return ["go", "run", "-mod=mod", "."], folder
    jars = list(drivers.glob("postgresql-*.jar"))
    if language == "java" and shutil.which("java") and jars:
        (folder / "Orders.java").write_text(text)
        return ["java", "-cp", jars[0], folder / "Orders.java"], folder
    if language == "sql":
        psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", "-h", host, "-p", port, "-U", user, "-d", database]
        return [*psql, "-c", text], folder
    return None


text = (HERE / "../../docs/drivers.md").read_text()
blocks = re.findall(r"^```(\w+)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", text, re.M | re.S)
ran = 0
for language, block, printed in blocks:
    if language in ("text", "yaml"):
        continue
    for there, here in PLACES.items():
        block = block.replace(there, here)
    with tempfile.TemporaryDirectory() as folder:
        started = command(language, block, Path(folder))
        if started is None:
            print(f"left out: a block of {language}")
            continue
        run = subprocess.run(started[0], cwd=started[1], capture_output=True, text=True, timeout=240)
    assert run.returncode == 0, f"{language}: {run.stdout}{run.stderr}\n{block}"
    lines = lambda what: [line.strip() for line in what.strip().splitlines()]
    assert not printed or lines(run.stdout) == lines(printed), f"{language} printed\n{run.stdout}\n{block}"
    print(f"ok: docs/drivers.md: {language}")
    ran += 1
assert ran >= 5, ran
