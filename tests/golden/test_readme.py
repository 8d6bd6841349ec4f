#!/usr/bin/env python3
"""What the README says of the states and the make targets is what the program and the Makefile say."""
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
BUILD = os.environ.get("BUILD", "build")
passed = failed = 0


def claim(text, problem):
    global passed, failed
    if problem:
        failed += 1
        print(f"FAIL {text}: {problem}")
    else:
        passed += 1


# --- the diagram of states -----------------------------------------------------------------------
table = json.loads(subprocess.run([f"{BUILD}/sagactl", "explain", "--states", "-o", "json"], text=True,
                                  capture_output=True, check=True).stdout)
rows = table if isinstance(table, list) else table["transitions"]
lines = ["```mermaid", "stateDiagram-v2"]
for row in rows:
    start = row["from"] if row["from"] not in (None, "(submit)", "none") else "[*]"
    lines.append(f"    {start} --> {row['to']}: {row['why'].replace(':', ' -')}")
for end in ("completed", "compensated", "abandoned"):
    lines.append(f"    {end} --> [*]")
lines.append("```")
diagram = "\n".join(lines)
readme = open("README.md").read()
pattern = re.compile(r"(<!-- states:.*?-->\n)(.*?)(<!-- /states -->)", re.S)
found = pattern.search(readme)
if os.environ.get("UPDATE"):
    readme = pattern.sub(lambda m: m.group(1) + "\n" + diagram + "\n\n" + m.group(3), readme)
    open("README.md", "w").write(readme)
    found = pattern.search(readme)
claim("the README's diagram is the transition table",
      None if found and found.group(2).strip() == diagram else "run it with UPDATE=1")

# --- lines ----------------------------------------------------------------------------------------
long = [n for n, line in enumerate(pattern.sub("", readme).split("\n"), 1) if len(line) > 120]
claim("no line of the README is longer than 120 characters", long and f"lines {long} without the diagram")

# --- commands ----------------------------------------------------------------------------------------
targets = set(subprocess.run(["make", "help"], text=True, capture_output=True).stdout.split())
for name in ("README.md", "CONTRIBUTING.md"):
    for target in re.findall(r"`?make ([a-z][a-z-]+)", open(name).read()):
        claim(f"{name}: make {target} is in make help", None if target in targets else "it is not")

# --- links -------------------------------------------------------------------------------------------
for folder, _, files in os.walk("."):
    if folder.startswith(("./build", "./.git", "./node_modules")):
        continue
    for name in files:
        if not name.endswith(".md"):
            continue
        path = os.path.join(folder, name)
        for target in re.findall(r"\]\(([^)#]+)\)", open(path).read()):
            if "://" not in target:
                claim(f"{path}: {target} exists",
                      None if os.path.exists(os.path.join(folder, target)) else "it does not")

print(f"{passed} passed, {failed} failed")
sys.exit(bool(failed))
