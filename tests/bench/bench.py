#!/usr/bin/env python3
"""Measures the engine against the floor, in turn, on one PostgreSQL of its own. See README.md."""

import argparse
import glob
import json
import os
import pwd
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get("BUILD", "build"))
SETTINGS = {"shared_buffers": "256MB", "max_wal_size": "8GB", "checkpoint_timeout": "30min",
            "listen_addresses": "", "max_connections": "40"}


def pg_program(name):
    for folder in sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True):
        if os.path.exists(os.path.join(folder, name)):
            return os.path.join(folder, name)
    found = shutil.which(name)
    if not found:
        sys.exit("bench: PostgreSQL is not installed: no " + name)
    return found


class Postgres:
    """A cluster in a temporary folder, fsync on, reached by a Unix socket only."""

    def __init__(self, settings):
        self.folder = tempfile.mkdtemp(prefix="sgb", dir="/var/tmp")
        self.data = os.path.join(self.folder, "pg")
        self.owner = {}
        if os.getuid() == 0:  # PostgreSQL refuses to run as root
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            self.owner = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        self.run(pg_program("initdb"), "-D", self.data, "-U", "postgres", "-A", "trust", "-E",
                 "UTF8", "--locale=C.UTF-8")
        with open(os.path.join(self.data, "postgresql.auto.conf"), "a") as out:
            for name, value in dict(SETTINGS, **settings).items():
                out.write("%s = '%s'\n" % (name, value))
            out.write("unix_socket_directories = '%s'\n" % self.folder)
        self.process = subprocess.Popen(
            [pg_program("postgres"), "-D", self.data], cwd="/", stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(self.folder, "pg.log"), "ab"), **self.owner)
        for _ in range(300):
            if os.path.exists(os.path.join(self.folder, ".s.PGSQL.5432")):
                if self.psql("postgres", "select 1", check=False) == "1":
                    break
            time.sleep(0.1)
        else:
            sys.exit("bench: PostgreSQL does not start")

    def run(self, *command):
        subprocess.run(command, check=True, cwd="/", stdout=subprocess.DEVNULL, **self.owner)

    def uri(self, database, user="postgres"):
        return "host=%s dbname=%s user=%s" % (self.folder, database, user)

    def psql(self, database, sql, check=True):
        done = subprocess.run(["psql", "-XAtq", "-d", self.uri(database), "-c", sql], text=True,
                              stdout=subprocess.PIPE, stderr=None if check else subprocess.DEVNULL,
                              check=check)
        return done.stdout.strip()

    def wal(self):
        return int(self.psql("postgres",
                             "select pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"))

    def cpu(self):
        """Processor seconds of the backends that are there, by process."""
        used = {}
        for stat in glob.glob("/proc/[0-9]*/stat"):
            try:
                with open(stat) as text:
                    fields = text.read().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == self.process.pid:
                used[stat] = ticks(fields)
        return used

    def close(self, keep):
        self.process.send_signal(2)
        self.process.wait()
        if keep:
            print("the folder is " + self.folder)
        else:
            shutil.rmtree(self.folder)


def ticks(fields):
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of(pid):
    with open("/proc/%d/stat" % pid) as text:
        return ticks(text.read().rpartition(")")[2].split())


def rss_of(pid):
    with open("/proc/%d/status" % pid) as text:
        return next(int(line.split()[1]) for line in text if line.startswith("VmRSS"))


class Load:
    """The participant, and the client of sagad."""

    def __init__(self):
        self.process = subprocess.Popen([os.path.join(BUILD, "tests/bench/load")], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.port = int(self.process.stdout.readline().split()[1])

    def ask(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            sys.exit("bench: the load client ended")
        answer = json.loads(line)
        if answer["refused"]:
            sys.exit("bench: sagad refused %d submits" % answer["refused"])
        return answer

    def close(self):
        self.process.stdin.close()
        self.process.wait()


class Sagad:
    def __init__(self, pg, port):
        self.pg = pg
        pg.psql("postgres", "create database saga")
        self.sagad = os.path.join(BUILD, "sagad")
        subprocess.run([self.sagad, "migrate", "--database", pg.uri("saga")], check=True,
                       stdout=subprocess.DEVNULL)
        config = os.path.join(pg.folder, "sagad.yaml")
        self.socket = os.path.join(pg.folder, "sagad.sock")
        with open(config, "w") as out:
            out.write("services: {participant: {url: \"http://127.0.0.1:%d\"}}\n" % port)
        self.process = subprocess.Popen(
            [self.sagad, "-c", config, "--database", pg.uri("saga", "saga_engine"), "--socket",
             self.socket, "--name", "bench"], stdout=subprocess.DEVNULL,
            stderr=open(os.path.join(pg.folder, "sagad.log"), "ab"))
        for _ in range(200):
            if os.path.exists(self.socket):
                break
            time.sleep(0.05)
        else:
            sys.exit("bench: sagad does not start")
        for name in ("bench", "sleep"):
            subprocess.run([os.path.join(BUILD, "sagactl"), "--socket", self.socket, "apply",
                            os.path.join(HERE, name + ".yaml")], check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def units(self):
        done = subprocess.run([os.path.join(BUILD, "sagactl"), "--socket", self.socket, "ping",
                               "-o", "json"], check=True, stdout=subprocess.PIPE)
        return json.loads(done.stdout)["units"]

    def close(self):
        self.process.terminate()
        self.process.wait()


class Bench:
    def __init__(self, options):
        self.options = options
        self.load = Load()
        self.pg = Postgres(dict(one.split("=", 1) for one in options.set))
        self.pg.psql("postgres", "create database floor")
        self.sagad = Sagad(self.pg, self.load.port)
        self.figures = {"floor": [], "engine": []}
        self.runs = 0

    def floor(self, seconds, in_flight):
        process = subprocess.Popen([os.path.join(BUILD, "tests/bench/floor"),
                                    self.pg.uri("floor"), str(self.load.port), str(seconds),
                                    str(in_flight)], text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE)
        process.stdout.readline()
        before, wal, cpu = self.pg.cpu(), self.pg.wal(), cpu_of(process.pid)
        process.stdin.write("\n")
        process.stdin.flush()
        line = process.stdout.readline()
        if not line:
            sys.exit("bench: the floor program ended")
        answer = json.loads(line)
        self.account(answer, before, wal)
        answer["cpu"] = (cpu_of(process.pid) - cpu) * 1e6 / answer["runs"]
        process.communicate("\n")
        return answer

    def engine(self, verb, seconds, *more):
        pid = self.sagad.process.pid
        before, wal, units, cpu = self.pg.cpu(), self.pg.wal(), self.sagad.units(), cpu_of(pid)
        answer = self.load.ask(verb, self.sagad.socket, seconds, *more)
        self.account(answer, before, wal)
        answer["cpu"] = (cpu_of(pid) - cpu) * 1e6 / answer["runs"]
        answer["units"] = self.sagad.units() - units
        self.runs += answer["runs"]
        if verb != "sleep" and answer["requests"] != 3 * answer["runs"]:
            sys.exit("bench: %(requests)d requests for %(runs)d runs" % answer)
        return answer

    def account(self, answer, cpu_before, wal_before):
        answer["per_s"] = answer["runs"] / answer["seconds"]
        used = sum(now - cpu_before.get(who, 0) for who, now in self.pg.cpu().items())
        answer["pg_cpu"] = used * 1e6 / answer["runs"]
        answer["wal"] = (self.pg.wal() - wal_before) / answer["runs"]

    def rounds(self):
        options = self.options
        self.floor(1, options.in_flight)
        self.engine("submit", 1, options.in_flight)
        for number in range(options.rounds):
            pair = {}
            for who in ("floor", "engine") if number % 2 == 0 else ("engine", "floor"):
                if who == "floor":
                    many = self.floor(options.seconds, options.in_flight)
                    lone = self.floor(options.lone, 1)
                else:
                    many = self.engine("submit", options.seconds, options.in_flight)
                    lone = self.engine("lone", options.lone)
                pair[who] = dict(many, p50=lone["p50_us"], p99=lone["p99_us"])
            for who, figures in pair.items():
                self.figures[who].append(figures)
            print("round %d: floor %d, engine %d sagas/s" % (
                number + 1, pair["floor"]["per_s"], pair["engine"]["per_s"]), flush=True)

    def table(self):
        def line(name, field, form):
            floor = [one[field] for one in self.figures["floor"]]
            engine = [one[field] for one in self.figures["engine"]]
            ratios = [e / f for e, f in zip(engine, floor)]
            print("%-38s %10s %10s   %.2f (%.2f to %.2f)" % (
                name, form % statistics.median(floor), form % statistics.median(engine),
                statistics.median(ratios), min(ratios), max(ratios)))
        for one in self.figures["floor"] + self.figures["engine"]:
            one["units_per_run"] = one["units"] / one["runs"]
        print("\n%-38s %10s %10s   ratio (range)" % ("median of the rounds", "floor", "engine"))
        line("throughput, sagas/s", "per_s", "%.0f")
        line("lone run p50, us", "p50", "%.0f")
        line("lone run p99, us", "p99", "%.0f")
        line("WAL, bytes a saga", "wal", "%.0f")
        line("transactions a saga", "units_per_run", "%.3f")
        line("processor, us a saga: program", "cpu", "%.1f")
        line("processor, us a saga: PostgreSQL", "pg_cpu", "%.1f")

    def long_run(self):
        perf = None
        if self.options.perf:
            perf = subprocess.Popen(["perf", "record", "-q", "-F", "499", "--call-graph", "dwarf,16384",
                                     "-o", self.options.perf, "-p",
                                     str(self.sagad.process.pid)])
        answer = self.engine("submit", self.options.long, self.options.in_flight)
        if perf:
            perf.send_signal(2)
            perf.wait()
        print("\nlong run: %d sagas in %.0f s; the last tenth at %.2f of the first tenth's rate "
              "(%.0f, %.0f /s); tables hold %s" % (
                  answer["runs"], answer["seconds"], answer["last_tenth"] / answer["first_tenth"],
                  answer["first_tenth"], answer["last_tenth"],
                  self.pg.psql("saga", "select pg_size_pretty(sum(pg_total_relation_size(oid))) "
                               "from pg_class where relname in ('run', 'run_key', 'effect')")))

    def memory(self):
        pid = self.sagad.process.pid
        before = rss_of(pid)
        self.engine("sleep", self.options.sleepers, "sleeper")
        time.sleep(0.5)
        after = rss_of(pid)
        print("sagad holds %.1f MB after the runs, %.1f MB with %d runs that sleep: %.0f bytes a "
              "resident run" % (before / 1024, after / 1024, self.options.sleepers,
                                (after - before) * 1024 / self.options.sleepers))

    def rows(self):
        """Backends tell their counters when they end."""
        done = self.pg.psql("saga", "select count(*) from saga.runs where state = 'completed'")
        if int(done) + self.options.sleepers != self.runs:
            sys.exit("bench: %s runs are completed, %d were started" % (done, self.runs))
        self.sagad.close()
        time.sleep(0.5)
        rows = self.pg.psql("saga", """
            select string_agg(format('%%s %%s + %%s', relname, round(n_tup_ins / %d.0, 2),
                              round(n_tup_upd / %d.0, 2)), ', ' order by relname)
              from pg_stat_user_tables
             where relname in ('run_key', 'run', 'effect', 'attempt', 'event')""" % (
                 self.runs, self.runs))
        print("rows a run, inserted + updated: " + rows)

    def close(self):
        self.sagad.close()
        self.load.close()
        self.pg.close(self.options.keep)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=6, help="of throughput, each side")
    parser.add_argument("--lone", type=int, default=4, help="seconds of lone runs, each side")
    parser.add_argument("--long", type=int, default=25, help="seconds of the long run; 0: none")
    parser.add_argument("--in-flight", type=int, default=512)
    parser.add_argument("--sleepers", type=int, default=10000)
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[],
                        help="a setting of PostgreSQL")
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    parser.add_argument("--perf", metavar="FILE", help="profile sagad during the long run")
    options = parser.parse_args()
    bench = Bench(options)
    try:
        print("%d processors; PostgreSQL %s; %s; %d runs in flight" % (
            os.cpu_count(), bench.pg.psql("postgres", "show server_version"),
            ", ".join("%s %s" % (name, bench.pg.psql("postgres", "show " + name)) for name in (
                "fsync", "synchronous_commit", "full_page_writes", "shared_buffers",
                "max_wal_size")), options.in_flight), flush=True)
        bench.rounds()
        if options.rounds:
            bench.table()
        if options.long:
            bench.long_run()
        if options.sleepers:
            bench.memory()
        bench.rows()
    finally:
        bench.close()


if __name__ == "__main__":
    main()
