"""Forks, and processes that end at a bad moment: the database opens and verifies."""

import os
import signal
import subprocess
import sys

import pytest

import heddledb

FORK = """
import heddledb, os, sys
con = heddledb.connect(sys.argv[1])
con.execute("create table t (a int)")
con.commit()
con.execute("insert into t values (1)")
ready, is_ready = os.pipe()
parent, is_parent = os.pipe()
child = os.fork()
if child == 0:
    os.close(is_parent)
    for call in [
        lambda: con.execute("select 1"),
        con.commit,
        con.database.connect,
        con.database.check,
        lambda: heddledb.connect(sys.argv[1]),
        lambda: heddledb.connect(":memory:"),
    ]:
        try:
            call()
        except heddledb.Error as error:
            assert "forked" in str(error) and error.hint, error
        else:
            os._exit(1)
    del con
    os.write(is_ready, b"x")
    # Until the parent has ended.
    os.read(parent, 1)
    os._exit(0)
os.close(is_ready)
assert os.read(ready, 1) == b"x", os.wait()
con.commit()
con.close()
# The child is there, and has the database no more.
again = heddledb.connect(sys.argv[1])
assert again.execute("select a from t").fetchall() == [(1,)]
again.close()
"""


def test_a_fork(path, python):
    done = python(FORK, path)
    assert done.returncode == 0, done.stderr
    verify(path)


def test_a_fork_before_the_first_database(path, python):
    program = """
import heddledb, os, sys
heddledb.connect(":memory:").close()
if os.fork() == 0:
    con = heddledb.connect(sys.argv[1])
    con.execute("create table t (a int)")
    con.execute("insert into t values (7)")
    con.commit()
    con.close()
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    done = python(program, path)
    assert done.returncode == 0, done.stderr
    assert verify(path) == [(7,)]


def verify(path):
    """Opens the database and checks it."""
    with heddledb.Database(path) as db:
        db.check()
        return db.run(lambda tx: tx.execute("select a from t order by a").fetchall())


PREPARED = """
import heddledb, os, signal, sys, threading
con = heddledb.connect(sys.argv[1])
con.execute("create table t (a int primary key)")
con.execute("insert into t values (1)")
con.commit()
con.execute("insert into t values (2)")
"""


@pytest.mark.parametrize(
    "ending, code",
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("raise RuntimeError('in a transaction')", 1),
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        ("pass", 0),
        ("del con", 0),
        ("con.close()", 0),
        ("threading.Thread(target=con.execute, args=('select pg_sleep(3600)',), daemon=True).start()", 0),
    ],
)
def test_a_process_that_ends_in_a_transaction(path, python, ending, code):
    done = python(PREPARED + ending, path)
    assert done.returncode == code, done.stderr
    assert verify(path) == [(1,)]


def test_a_process_that_is_killed_while_threads_commit(path):
    program = """
import heddledb, os, sys, threading
db = heddledb.Database(sys.argv[1])
with db.connect() as con:
    con.execute("create table t (a int primary key, b int)")
def work(number):
    con = db.connect(autocommit=True)
    for n in range(10**6):
        con.execute("insert into t values (%s, 0)", (n * 8 + number,))
        os.write(1, b"%d\\n" % (n * 8 + number))
for number in range(8):
    threading.Thread(target=work, args=(number,)).start()
"""
    command = [sys.executable, "-c", program, path]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        committed = {int(process.stdout.readline()) for _ in range(200)}
        process.kill()
    assert committed <= {a for (a,) in verify(path)}


def test_a_dropped_connection_rolls_back(path):
    with heddledb.Database(path) as db:
        con = db.connect()
        con.execute("create table t (a int primary key)")
        con.commit()
        con.execute("insert into t values (1)")
        del con
        other = db.connect()
        other.execute("insert into t values (1)")
        other.commit()
        other.close()
    assert verify(path) == [(1,)]


def resident_kilobytes():
    with open("/proc/self/statm") as statistics:
        return int(statistics.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="needs /proc")
def test_statements_leave_no_memory_behind(con):
    """The bar is a million statements (HEDDLE_STATEMENTS=1000000): fewer in a usual run."""
    statements = int(os.environ.get("HEDDLE_STATEMENTS", "20000"))
    con.autocommit = True
    con.executescript("create table t (a int primary key, b text, c numeric)")
    con.executemany("insert into t values (%s, %s, %s)", [(n, "x" * 20, n) for n in range(100)])

    def run(count):
        for n in range(count):
            con.execute("select b, c from t where a = %s", (n % 100,)).fetchall()
            if n % 10 == 0:
                con.execute("update t set b = %s where a = %s", (str(n), n % 100))
                try:
                    con.execute("select 1 / %s", (0,))
                except heddledb.DataError:
                    pass

    run(statements // 4)
    before = resident_kilobytes()
    run(statements)
    assert resident_kilobytes() < before * 1.05 + 1024
