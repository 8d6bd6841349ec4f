#!/usr/bin/env python3
"""The man pages and the completion scripts know what --help knows: all verbs, options and codes."""
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "..", "lib"))
from ctl_case import ROOT, SAGACTL, CtlCase, main  # noqa: E402
from fake_sagad import run  # noqa: E402

SAGAD = os.path.join(os.path.dirname(SAGACTL), "sagad")


def page(name):
    with open(os.path.join(ROOT, "engine", "man", name)) as file:
        return file.read()


def options_of(text):
    """{"--input", "-f", ...} of a help text."""
    return {name for pair in re.findall(r"(?m)^  (?:(-\w), )?(--[\w-]+)", text)
            for name in pair if name}


class Help(CtlCase):
    helps = {}  # asked once: a process each is slow

    def help(self, *verb):
        if verb not in self.helps:
            self.helps[verb] = self.ctl(*verb, "--help").out
        return self.helps[verb]

    def verbs(self):
        overview = self.help()
        verbs = re.findall(r"(?m)^  ([a-z-]+)[^\n]* {2}\S", overview.split("\nOptions")[0])
        self.assertGreater(len(verbs), 20)
        return verbs

    def own_options(self, verb):
        text = self.help(verb)
        own = text.split("\nOptions:\n")[1].split("\n\n")[0] if "\nOptions:\n" in text else ""
        return options_of("\n" + own)

    def globals(self):
        return options_of(self.help().split("\nOptions of every verb:\n")[1]
                          .split("\n\n")[0])


class Man(Help):
    def roff_names(self, text):
        """The options that a piece of mdoc names."""
        found = set()
        for line in text.splitlines():
            for long, name in re.findall(r"\bFl (Fl )?([a-z][\w-]*)", line.replace("\\-", "-")):
                found.add(("--" if long else "-") + name)
        return found

    def test_verbs_and_options(self):
        """Each verb has its section in sagactl.1, with exactly the options of its help."""
        text = page("sagactl.1")
        sections = {m.group(1): m.group(2) for m in
                    re.finditer(r"(?ms)^\.Ss ([\w-]+)[^\n]*\n(.*?)(?=^\.S[sh] |\Z)", text)}
        self.assertEqual(set(self.verbs()), set(sections))
        for verb in self.verbs():
            items = "\n".join(line for line in sections[verb].splitlines()
                              if line.startswith(".It Fl"))
            self.assertEqual(self.own_options(verb), self.roff_names(items), verb)

    def test_globals(self):
        """The options of every verb are in sagactl.1."""
        part = page("sagactl.1").split(".Sh OPTIONS OF EVERY VERB")[1].split("\n.Sh ")[0]
        items = "\n".join(line for line in part.splitlines() if line.startswith(".It Fl"))
        self.assertEqual(self.globals() | {"--version"}, self.roff_names(items))

    def test_exit_codes(self):
        """Each exit code of the overview is in sagactl.1, and no other."""
        codes = re.findall(r"(?m)^ +(\d+)  ", self.help().split("\nExit codes:\n")[1])
        part = page("sagactl.1").split(".Sh EXIT STATUS")[1].split("\n.Sh ")[0]
        self.assertEqual(codes, re.findall(r"(?m)^\.It (\d+)$", part))
        self.assertEqual([str(n) for n in range(11)] + ["130"], codes)

    def test_environment(self):
        """Each variable of the environment that sagactl reads is in its page."""
        names = set()
        for name in os.listdir(os.path.join(ROOT, "engine")):
            if name == "sagactl.c" or re.match(r"ctl_\w+\.c$", name):
                with open(os.path.join(ROOT, "engine", name)) as file:
                    names |= set(re.findall(r'getenv\("(\w+)"\)', file.read()))
        self.assertIn("SAGA_SOCKET", names)
        for name in names:
            self.assertIn(".It Ev %s" % name, page("sagactl.1"))

    def test_sagad(self):
        """Each option of sagad --help is in sagad.1, and no other."""
        text = subprocess.run([SAGAD, "--help"], capture_output=True, text=True, check=True).stdout
        options = set(re.findall(r"--[a-z][\w-]*", text))
        items = "\n".join(line for line in page("sagad.1").splitlines()
                          if line.startswith(".It Fl"))
        named = {name for name in self.roff_names(items) if name.startswith("--")}
        self.assertEqual(options | {"--config"}, named)

    def test_groff(self):
        """Both pages are laid out without a warning, and show what they hold."""
        self.assertTrue(shutil.which("groff"), "groff is needed (package groff-base)")
        for name, said in (("sagactl.1", "--not-applied"), ("sagad.1", "--ephemeral")):
            process = subprocess.run(
                ["groff", "-mandoc", "-Tutf8", "-ww", "-P-c", os.path.join(ROOT, "engine", "man", name)],
                capture_output=True, text=True, check=True)
            self.assertEqual("", process.stderr)
            self.assertIn(said, re.sub(".\b", "", process.stdout))


class Completion(Help):
    def script(self, shell):
        result = self.ctl("completion", shell)
        self.assert_exit(0, result)
        return self.write("completion." + shell, result.out)

    def test_all_verbs_and_options(self):
        """Each script knows each verb, and each option of each verb."""
        for shell in ("bash", "zsh", "fish"):
            with open(self.script(shell)) as file:
                text = file.read()
            for verb in self.verbs():
                self.assertRegex(text, r"\b%s\b" % verb)
                for option in self.own_options(verb) | self.globals():
                    form = (" -l %s\\b" % option[2:] if option.startswith("--")
                            else " -s %s\\b" % option[1:]) if shell == "fish" else (
                                re.escape(option) + r"\b")
                    self.assertRegex(text, form, (shell, verb))

    def bash(self, *words):
        """What bash offers for the last word."""
        script = ("source %s\nCOMP_WORDS=(\"$@\")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
                  "_sagactl\nprintf '%%s\\n' \"${COMPREPLY[@]}\"" % self.script("bash"))
        path = os.path.dirname(SAGACTL) + ":" + os.environ["PATH"]
        process = subprocess.run(["bash", "-c", script, "bash", "sagactl", *words],
                                 env=self.env(PATH=path), cwd=self.folder, capture_output=True,
                                 text=True, check=True)
        self.assertEqual("", process.stderr)
        return process.stdout.split()

    def test_bash(self):
        """bash offers verbs, options with their values, files, words, and what the daemon has."""
        self.fake.on("GET", "/v1/runs", {"runs": [run(run_id="order-1"), run(run_id="mail-2")],
                                         "next": None})
        self.fake.on("GET", "/v1/workflows", {"workflows": [{"workflow": "order"}]})
        self.fake.on("GET", "/v1/dead", {"dead": [{"run_id": "order-9"}]})
        self.write("order.yaml", "")
        self.assertEqual(["cancel", "compensate", "completion", "conform"], sorted(self.bash("c")))
        self.assertEqual(set(self.verbs()), set(self.bash("")))
        self.assertEqual(["--reason"], self.bash("cancel", "r", "--re"))
        self.assertIn("--not-applied", self.bash("settle", "-"))
        self.assertIn("--socket", self.bash("-"))
        self.assertEqual(["parked"], self.bash("list", "--state", "par"))
        self.assertEqual(["json", "jsonl"], self.bash("list", "-o", "j"))
        self.assertEqual(["order"], self.bash("run", ""))
        self.assertEqual(["order"], self.bash("list", "--workflow", ""))
        self.assertEqual(["order-1"], self.bash("show", "or"))
        self.assertEqual(["order.yaml"], self.bash("validate", "o"))
        self.assertEqual(["list", "show"], self.bash("dead", ""))
        self.assertEqual(["order-9"], self.bash("dead", "show", ""))
        self.assertEqual(["zsh"], self.bash("completion", "z"))
        self.assertEqual(["wait", "watch", "workflows"], sorted(self.bash("help", "w")))
        self.assertEqual([], self.bash("run", "order", "--input", ""))

    def test_bash_without_daemon(self):
        """Without a daemon nothing is offered for runs, and nothing is said."""
        self.fake.stop()
        self.assertEqual([], self.bash("show", ""))
        self.fake.start()

    def test_syntax(self):
        """The scripts are read by their shells without a complaint; zsh and fish where they are
        installed."""
        tried = 0
        for shell in ("bash", "zsh", "fish"):
            program = shutil.which(shell)
            if program:
                process = subprocess.run([program, "-n", self.script(shell)], capture_output=True,
                                         text=True, check=False)
                self.assertEqual((0, ""), (process.returncode, process.stderr), shell)
                tried += 1
        self.assertGreaterEqual(tried, 1)


if __name__ == "__main__":
    main()
