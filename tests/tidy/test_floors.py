#!/usr/bin/env python3
"""A file includes its own floor and lower ones, never higher; pure floors call nothing impure.

The floors are those of the Makefile (FLOOR0 to FLOOR7), so the archives and this test agree.
"""
import glob
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", "build")
os.chdir(ROOT)
failures = []
passed = 0


def claim(text, problems):
    global passed
    if problems:
        failures.append(text)
        print("FAIL", text)
        for problem in problems[:20]:
            print("    ", problem)
    else:
        passed += 1


def floors_of_makefile():
    """{source file: floor}, as make expands it."""
    script = "include Makefile\nprint-floors:\n" + "".join(
        f"\t@echo {n} $(FLOOR{n})\n" for n in range(8)) + "\t@echo 8 $(MAINS)\n"
    out = subprocess.run(["make", "-s", "-f", "-", "print-floors"], input=script, text=True,
                         capture_output=True, check=True).stdout
    floors = {}
    for line in out.splitlines():
        number, *files = line.split()
        for name in files:
            floors[name] = int(number)
    return floors


floors = floors_of_makefile()
# A header belongs to the floor of its source; those without one are listed here.
header_floor = {re.sub(r"\.c$", ".h", name): floor for name, floor in floors.items()}
header_floor.update({
    "dsl/dsl.h": 2, "dsl/compiler.h": 2, "dsl/expr_tree.h": 1, "dsl/expr_eval.h": 1,
    "dsl/jsonschema_tree.h": 1, "dsl/plan.h": 1, "dsl/expr.h": 1, "dsl/diag.h": 1,
    "engine/request.h": 3, "engine/run.h": 3, "engine/limits.h": 0, "engine/port.h": 6,
    "dsl/test_plan.h": 1, "engine/version.h": 0, "engine/api_impl.h": 7, "engine/runner_impl.h": 6,
    "engine/decide_impl.h": 5, "engine/store_pg_impl.h": 7, "engine/invoke_sql_impl.h": 7,
})
headers = [os.path.join(d, f) for d in ("dsl", "compensations", "engine", "engine/base")
           for f in os.listdir(d) if f.endswith(".h")]
for name in headers:
    if name.startswith("engine/base/"):
        header_floor[name] = 0
    elif name.startswith("dsl/"):
        header_floor.setdefault(name, 2)
    elif name.startswith("engine/ctl_"):
        header_floor.setdefault(name, 8)

problems = []
for name in sorted(list(floors) + headers):
    mine = floors.get(name, header_floor.get(name))
    if mine is None:
        problems.append(f"{name}: belongs to no floor; name it in {os.path.basename(__file__)}")
        continue
    for line_no, line in enumerate(open(name), 1):
        match = re.match(r'\s*#include\s+"([^"]+)"', line)
        if not match:
            continue
        target = match.group(1)
        if not os.path.exists(target):
            problems.append(f"{name}:{line_no}: includes are written from the root, not \"{target}\"")
            continue
        other = header_floor.get(target)
        if other is None and target.startswith("sql/"):
            continue
        if other is None:
            problems.append(f"{name}:{line_no}: {target} belongs to no floor")
        elif other > mine:
            problems.append(f"{name}:{line_no}: floor {mine} includes {target} of floor {other}")
        elif other == 2 and mine in (3, 4, 5, 6):
            problems.append(f"{name}:{line_no}: the compiler is a side tower, not for floor {mine}")
        elif mine == 4 and other == 4 and os.path.dirname(name) != os.path.dirname(target):
            problems.append(f"{name}:{line_no}: the walks never include each other")
claim("includes keep to the floors", problems)

# Libraries stand behind one file each.
fences = {
    "yaml.h": r"dsl/doc\.c$",
    "curl/curl.h": r"engine/(invoke_http|ctl_client)\.c$",
    "libpq-fe.h": r"engine/(pgconn|store_pg\w*|invoke_sql|migrate|pgdev)\.[ch]$",
    "event2/": r"engine/(loop|control)\.c$",
    "openssl/": r"engine/(base/sha256|key)\.c$",
}
problems = []
for name in sorted(list(floors) + headers):
    for line_no, line in enumerate(open(name), 1):
        match = re.match(r"\s*#include\s+<([^>]+)>", line)
        for prefix, allowed in fences.items():
            if match and match.group(1).startswith(prefix) and not re.match(allowed, name):
                problems.append(f"{name}:{line_no}: <{match.group(1)}> is not for this file")
claim("each library is included behind its fence only", problems)

# Pure floors: no clock, randomness, I/O, environment or logging. nm sees what the linker would.
ALLOWED = re.compile(
    r"^(mem\w+|str\w+|__?(memcpy|memmove|memset|strcpy|strcat|snprintf|vsnprintf|sprintf|"
    r"sprintf|strncpy|strncat|explicit_bzero)_chk|v?snprintf|__isoc\w+_\w*scanf|sscanf|rawmem\w+|"
    r"malloc|calloc|realloc|free|abort|qsort|bsearch|SHA1|SHA256|HMAC|EVP_sha256|__ctype_\w+|tolower|toupper|"
    r"regcomp|regexec|regfree|regerror|__stack_chk_fail|_GLOBAL_OFFSET_TABLE_|__asan\w*|__ubsan\w*|"
    r"__errno_location|strtol|strtoll|strtoull|strcasecmp|strncasecmp|__cpu_model|__cpu_indicator_init|__divti3|__udivti3|__modti3|__umodti3|_?setjmp|stpcpy)$")
# Where a programmer error or the end of memory ends the process, it may say so first.
LAST_WORDS = {"base.o": {"stderr", "fprintf", "__fprintf_chk", "fwrite"}}
problems = []
for floor in (0, 1, 3, 4, 5):
    archive = f"{BUILD}/floor{floor}.a"
    defined = set()
    for lower in range(0, floor + 1):
        out = subprocess.run(["nm", "--defined-only", f"{BUILD}/floor{lower}.a"], text=True,
                             capture_output=True).stdout
        defined |= {line.split()[-1] for line in out.splitlines() if len(line.split()) == 3}
    out = subprocess.run(["nm", "-u", archive], text=True, capture_output=True).stdout
    member = ""
    for line in out.splitlines():
        if line.endswith(".o:"):
            member = line[:-1]
            continue
        symbol = line.split()[-1] if line.strip() else ""
        if symbol and symbol not in defined and not ALLOWED.match(symbol) and \
                symbol not in LAST_WORDS.get(os.path.basename(member), ()):
            problems.append(f"floor {floor}: {member} calls {symbol}")
claim("pure floors call nothing but memory and text functions", problems)

problems = []
for floor in (0, 1, 3, 4, 5):
    out = subprocess.run(["objdump", "-t", f"{BUILD}/floor{floor}.a"], text=True,
                         capture_output=True).stdout
    member = ""
    for line in out.splitlines():
        if ".o:" in line:
            member = line.split(":")[0]
        # Constant tables of pointers lie in .data.rel.ro, which is read-only once it is relocated.
        match = re.search(r"\sO\s+(\.data|\.bss|\.tbss|\.tdata|\*COM\*)(?!\.rel\.ro)\S*\s+\S+\s+(\S+)$",
                          line)
        if match and not match.group(2).startswith("__"):
            problems.append(f"floor {floor}: {member} has a mutable global, {match.group(2)}")
claim("pure floors have no mutable globals", problems)

problems = []
for name in sorted(headers):
    code = subprocess.run(
        ["gcc", "-std=gnu11", "-D_GNU_SOURCE", "-fsyntax-only", "-I.", "-x", "c", name] +
        subprocess.run(["pkg-config", "--cflags", "libpq"], text=True,
                       capture_output=True).stdout.split(), capture_output=True, text=True)
    if code.returncode:
        problems.append(f"{name}: does not stand alone: {code.stderr.splitlines()[0]}")
claim("every header stands alone", problems)

problems = [name for name in sorted(glob.glob("tests/**/test_*.*", recursive=True))
            if name.endswith((".py", ".sh")) and not os.access(name, os.X_OK)]
claim("every test script can be run", [f"{name}: is not executable" for name in problems])

print(f"{passed} passed, {len(failures)} failed")
sys.exit(bool(failures))
