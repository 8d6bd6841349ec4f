"""Mutants: one small change each to a copy of a source file; a program that plays the core must see it.

A mutant is a tuple that begins with its name, the file, the text that is changed and what it becomes.
"""
import glob
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

BUILD = os.environ.get("BUILD", "build")
VERBOSE = os.environ.get("V")
CFLAGS = ("-std=gnu11 -D_GNU_SOURCE -I. -O0 -w " +
          subprocess.run(["pkg-config", "--cflags", "libcrypto"], text=True,
                         capture_output=True).stdout).split() + \
    (["-fsanitize=address,undefined"] if "asan" in BUILD else [])


def archive_members():
    return [f"{BUILD}/floor{n}.a" for n in range(6, -1, -1)]


def mutant_try(group, number, mutant, survived, env):
    """None, or why the mutant was not seen. `survived` judges what the program came to."""
    name, path, old, new = mutant[:4]
    text = open(path).read()
    if text.count(old) != 1:
        return f"{name}: the place in {path} is there {text.count(old)} times"
    folder = os.path.join(BUILD, "mutants", group, str(number))
    os.makedirs(folder, exist_ok=True)
    source = os.path.join(folder, os.path.basename(path))
    open(source, "w").write(text.replace(old, new))
    obj = source[:-2] + ".o"
    program = os.path.join(folder, group)
    steps = [["gcc", *CFLAGS, "-c", source, "-o", obj]]
    # The mutant comes before the archives, so the linker never takes the original.
    own = [f"{BUILD}/{source[:-2]}.o" for source in sorted(glob.glob(f"tests/{group}/*.c"))
           if source != path]
    libs = subprocess.run(["pkg-config", "--libs", "libcrypto", "yaml-0.1"], text=True,
                          capture_output=True).stdout.split()
    steps.append(["gcc", *[f for f in CFLAGS if f.startswith("-fsan")], "-o", program, *own, obj,
                  *archive_members(), *libs, "-lm"])
    began = time.monotonic()
    for step in steps:
        done = subprocess.run(step, text=True, capture_output=True)
        if done.returncode:
            return f"{name}: does not build: {done.stderr.splitlines()[0]}"
    built = time.monotonic()
    done = subprocess.run([program], text=True, capture_output=True,
                          env={**os.environ, "FAILURES": "1", "ASAN_OPTIONS": "detect_leaks=0", **env})
    if VERBOSE:
        print(f"{built - began:6.2f} {time.monotonic() - built:6.2f} {name}: "
              f"{done.stdout.splitlines()[:2]}")
    why = survived(done)
    return f"{name}: {why}" if why else None


def main(group, mutants, survived, env):
    """Tries those whose name has the words of the command line; 1 if one was not seen."""
    only = sys.argv[1] if len(sys.argv) > 1 else ""
    numbers = [n for n, mutant in enumerate(mutants) if only in mutant[0]]
    with ThreadPoolExecutor(max_workers=2) as pool:
        results = list(pool.map(lambda n: mutant_try(group, n, mutants[n], survived, env), numbers))
    failed = [r for r in results if r]
    for line in failed:
        print("SURVIVED", line)
    print(f"{len(results) - len(failed)} passed, {len(failed)} failed")
    return bool(failed)
