"""Threads, the GIL, Ctrl-C, and databases that are opened twice."""

import os
import signal
import threading
import time

import pytest

import heddledb


def in_threads(count, work):
    """Runs ``work(number)`` in threads, and raises what one of them has raised."""
    failures = []

    def guarded(number):
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def test_threads_share_a_database(path):
    with heddledb.Database(path) as db:
        with db.connect() as con:
            con.execute("create table counter (id int primary key, n int not null)")
            con.execute("insert into counter values (1, 0)")

        def work(_):
            own = db.connect(autocommit=True)
            for _ in range(25):
                own.execute("update counter set n = n + 1 where id = 1")
            own.close()

        in_threads(8, work)
        assert db.run(lambda tx: tx.execute("select n from counter").fetchone()) == (200,)


def test_a_path_that_is_opened_twice_is_one_database(path, tmp_path):
    first = heddledb.connect(path)
    os.symlink(path, tmp_path / "link")
    second = heddledb.connect(tmp_path / "link")
    with first:
        first.execute("create table t (a int)")
    with second:
        second.execute("insert into t values (1)")
    first.close()
    assert second.execute("select a from t").fetchone() == (1,)
    second.close()
    third = heddledb.connect(path)
    assert third.execute("select a from t").fetchone() == (1,)
    third.close()


def test_databases_in_memory_are_apart():
    first, second = heddledb.connect(":memory:"), heddledb.connect(":memory:")
    first.execute("create table t (a int)")
    second.execute("create table t (a text)")
    first.close()
    second.close()


def test_threads_that_open_and_close_one_path(path):
    def work(number):
        for _ in range(5):
            con = heddledb.connect(path)
            assert con.execute("select %s", (number,)).fetchone() == (number,)
            con.close()

    in_threads(4, work)


def test_another_process_is_refused(path, python):
    con = heddledb.connect(path)
    done = python("import heddledb, sys; heddledb.connect(sys.argv[1])", path)
    assert done.returncode != 0 and "heddledb._errors." in done.stderr, done.stderr
    con.close()
    assert python("import heddledb, sys; heddledb.connect(sys.argv[1])", path).returncode == 0


def test_no_wait_holds_the_gil(con):
    """While one thread waits in the engine, others run: the wait ends because this thread cancels it."""
    other = con.database.connect()
    raised = []

    def wait():
        try:
            other.execute("select pg_sleep(3600)")
        except heddledb.Error as error:
            raised.append(error.sqlstate)

    thread = threading.Thread(target=wait)
    thread.start()
    while thread.is_alive():
        other.cancel()
        time.sleep(0.001)
    assert raised == ["57014"]


def test_a_lock_wait_does_not_hold_the_gil(con):
    con.executescript("create table t (a int primary key, b int); insert into t values (1, 0)")
    con.execute("select b from t where a = 1 for update")
    other = con.database.connect()
    begun, done = threading.Event(), threading.Event()

    def wait():
        begun.set()
        with other:
            other.execute("select b from t where a = 1 for update").fetchone()
            other.execute("update t set b = b + 1 where a = 1")
        done.set()

    thread = threading.Thread(target=wait)
    thread.start()
    begun.wait()
    con.execute("update t set b = 10 where a = 1")
    con.commit()
    thread.join()
    assert done.is_set()
    assert con.execute("select b from t").fetchone() == (11,)


@pytest.fixture
def python_handles_ctrl_c():
    """Programs that a shell starts in the background ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupt_soon(is_over):
    """Sends Ctrl-C to this process until it is over."""

    def send():
        while not is_over.wait(0.2):
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    return thread


def test_ctrl_c_cancels_the_statement(con, python_handles_ctrl_c):
    is_over = threading.Event()
    thread = interrupt_soon(is_over)
    try:
        with pytest.raises(KeyboardInterrupt):
            try:
                con.execute("select pg_sleep(3600)")
            finally:
                is_over.set()
    finally:
        thread.join()
    con.rollback()
    assert con.execute("select 1").fetchone() == (1,)


def test_ctrl_c_that_is_ignored_cancels_nothing(con, python_handles_ctrl_c):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    is_over = threading.Event()
    thread = interrupt_soon(is_over)
    try:
        assert con.execute("select 1 from pg_sleep(1)").fetchone() == (1,)
    finally:
        is_over.set()
        thread.join()


def test_ctrl_c_calls_the_programs_handler(con, python_handles_ctrl_c):
    is_over = threading.Event()
    seen = []
    before = signal.signal(signal.SIGINT, lambda *_: (seen.append(1), is_over.set()))
    thread = interrupt_soon(is_over)
    try:
        with pytest.raises(heddledb.OperationalError) as caught:
            con.execute("select pg_sleep(3600)")
    finally:
        is_over.set()
        thread.join()
        signal.signal(signal.SIGINT, before)
    assert caught.value.sqlstate == "57014" and seen
    con.rollback()
    assert con.execute("select 1").fetchone() == (1,)
