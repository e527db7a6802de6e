"""Transactions as functions, and for asyncio."""

import asyncio
import contextlib
import gc
import os
import threading
import time

import pytest

import heddledb
from test_threads import in_threads


@pytest.fixture
def db(path):
    with heddledb.Database(path) as database:
        with database.connect() as con:
            con.execute("create table counter (id int primary key, n int not null)")
            con.execute("insert into counter values (1, 0), (2, 0)")
        con.close()
        yield database


def number(db, counter=1):
    return db.run(lambda tx: tx.execute("select n from counter where id = %s", (counter,)).fetchone()[0])


def test_run_commits_and_returns_the_result(db):
    def add(tx):
        tx.execute("update counter set n = n + 1 where id = 1")
        return tx.execute("select n from counter where id = 1").fetchone()[0]

    assert db.run(add) == 1
    assert number(db) == 1


def test_an_exception_rolls_back_and_is_not_retried(db):
    calls = []

    def fail(tx):
        calls.append(1)
        tx.execute("update counter set n = 100")
        raise ValueError("no")

    with pytest.raises(ValueError):
        db.run(fail)
    with pytest.raises(heddledb.DataError):
        db.run(lambda tx: tx.execute("select 1 / 0"))
    assert len(calls) == 1 and number(db) == 0


def test_a_conflict_is_retried_with_only_the_last_attempts_effects(db):
    """The first attempt reads, and another transaction changes what it has read before it writes."""
    attempts = []

    def add(tx):
        attempts.append(1)
        (n,) = tx.execute("select n from counter where id = 1").fetchone()
        tx.execute("update counter set n = n + 1 where id = 2")
        if len(attempts) == 1:
            db.run(lambda other: other.execute("update counter set n = 10 where id = 1"))
        tx.execute("update counter set n = %s where id = 1", (n + 1,))

    db.run(add)
    assert len(attempts) == 2
    assert (number(db, 1), number(db, 2)) == (11, 1)


def test_attempts_are_bounded(db):
    def conflict(tx):
        (n,) = tx.execute("select n from counter where id = 1").fetchone()
        db.run(lambda other: other.execute("update counter set n = n + 1 where id = 1"))
        tx.execute("update counter set n = %s where id = 1", (n,))

    with pytest.raises(heddledb.OperationalError) as caught:
        db.run(conflict, attempts=3)
    assert caught.value.retryable and number(db) == 3


def test_read_and_write_in_many_threads_loses_nothing(db):
    @db.transaction
    def add(tx, counter, step=1):
        (n,) = tx.execute("select n from counter where id = %s", (counter,)).fetchone()
        tx.execute("update counter set n = %s where id = %s", (n + step, counter))
        return n + step

    assert add.__name__ == "add"
    in_threads(8, lambda _: [add(1, step=2) for _ in range(10)])
    assert number(db) == 160


def test_reading_transactions_cannot_write(db):
    with pytest.raises(heddledb.InternalError) as caught:
        db.run(lambda tx: tx.execute("update counter set n = 1"), read_only=True)
    assert caught.value.sqlstate == "25006"


def test_a_closed_database_says_so(path):
    db = heddledb.Database(path)
    db.run(lambda tx: tx.execute("select 1"))
    db.close()
    with pytest.raises(heddledb.InterfaceError):
        db.run(lambda tx: tx.execute("select 1"))
    with pytest.raises(heddledb.InterfaceError):
        db.connect()


def test_coroutines(db):
    async def add(tx):
        (n,) = (await tx.execute("select n from counter where id = 1")).fetchone()
        await tx.execute("update counter set n = %s where id = 1", (n + 1,))
        return n + 1

    async def main():
        assert await db.arun(add) == 1
        assert await db.arun(lambda tx: tx.execute("select n from counter where id = 1").fetchone()) == (1,)
        async with db.atransaction() as tx:
            await tx.executemany("insert into counter values (%s, %s)", [(3, 0), (4, 0)])
        with pytest.raises(ValueError):
            async with db.atransaction() as tx:
                await tx.execute("delete from counter")
                raise ValueError("no")
        with pytest.raises(heddledb.InterfaceError):
            await tx.execute("select 1")
        await asyncio.gather(*(db.arun(add) for _ in range(50)))

    asyncio.run(main())
    assert number(db) == 51
    assert db.run(lambda tx: tx.execute("select count(*) from counter").fetchone()) == (4,)


def test_thousands_of_waiters_need_no_thread_each(db):
    async def main():
        add = "update counter set n = n + 1 where id = 1"
        waiting = [asyncio.create_task(db.arun(lambda tx: tx.execute(add).rowcount)) for _ in range(2000)]
        await asyncio.sleep(0)
        assert threading.active_count() < 100
        assert sum(await asyncio.gather(*waiting)) == 2000

    asyncio.run(main())
    assert number(db) == 2000


def test_lock_waits_do_not_exhaust_the_pool(path):
    """Four threads, and many transactions that wait for a lock: its holder goes on, and all of them come to their end."""

    async def main(db):
        async def lock(tx):
            await tx.execute("select n from counter where id = 1 for update")
            await asyncio.sleep(0.01)
            await tx.execute("update counter set n = n + 1 where id = 1")

        await asyncio.wait_for(asyncio.gather(*(db.arun(lock) for _ in range(20))), timeout=120)

    with heddledb.Database(path, async_threads=4) as db:
        with db.connect() as con:
            con.execute("create table counter (id int primary key, n int not null)")
            con.execute("insert into counter values (1, 0)")
        asyncio.run(main(db))
        assert number(db) == 20


@pytest.mark.parametrize("kind", ["coroutine", "function", "transaction"])
def test_a_cancelled_coroutine_cancels_its_statement_and_rolls_back(db, kind):
    async def body(tx):
        await tx.execute("update counter set n = 100")
        await tx.execute("select pg_sleep(3600)")

    def function(tx):
        tx.execute("update counter set n = 100")
        tx.execute("select pg_sleep(3600)")

    async def transaction():
        async with db.atransaction() as tx:
            await body(tx)

    async def main():
        calls = {"coroutine": lambda: db.arun(body), "function": lambda: db.arun(function), "transaction": transaction}
        task = asyncio.create_task(calls[kind]())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await db.arun(lambda tx: tx.execute("select n from counter where id = 1").fetchone()) == (0,)

    began = time.monotonic()
    asyncio.run(main())
    assert time.monotonic() - began < 1800
    assert number(db) == 0


def test_commits_of_coroutines_hold_no_thread_of_the_pool(path):
    """One thread, and an event loop that does not look which commits are durable: every transaction commits all the same."""
    with heddledb.Database(path, async_threads=1) as db:
        db.run(lambda tx: tx.execute("create table entry (id int primary key)"))

        async def one(number):
            async def add(tx):
                await tx.execute("insert into entry values (%s)", (number,))
                return number

            return await db.arun(add)

        def committed():
            return db.run(lambda tx: tx.execute("select count(*) from entry").fetchone()[0])

        async def main():
            loop = asyncio.get_running_loop()
            commits = heddledb._aio._Commits.of_this_loop()
            loop.remove_reader(commits._commits.fileno())
            waiting = [asyncio.create_task(one(number)) for number in range(20)]
            deadline = time.monotonic() + 60
            while committed() < 20:
                assert time.monotonic() < deadline, "a commit that is waited for holds the only thread"
                await asyncio.sleep(0.01)
            loop.add_reader(commits._commits.fileno(), commits._take)
            return await asyncio.gather(*waiting)

        assert asyncio.run(main()) == list(range(20))


def threads_named(name):
    found = 0
    for task in os.listdir("/proc/self/task"):
        with contextlib.suppress(OSError), open(f"/proc/self/task/{task}/comm") as comm:
            found += comm.read().strip() == name
    return found


def test_an_event_loop_that_is_gone_leaves_no_thread(path):
    with heddledb.Database(path) as db:
        db.run(lambda tx: tx.execute("create table entry (id int)"))

        async def main():
            await db.arun(lambda tx: tx.execute("insert into entry values (1)"))
            return threads_named("heddle-commits")

        assert asyncio.run(main()) >= 1
        for _ in range(20):
            asyncio.run(main())
        deadline = time.monotonic() + 60
        while threads_named("heddle-commits") > 0:
            gc.collect()
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_coroutines_see_conflicts_and_failed_transactions_at_commit(db):
    async def conflict(tx):
        (n,) = (await tx.execute("select n from counter where id = 1")).fetchone()
        await asyncio.to_thread(db.run, lambda other: other.execute("update counter set n = n + 1 where id = 1"))
        await tx.execute("update counter set n = %s where id = 2", (n,))

    async def failed():
        async with db.atransaction() as tx:
            with pytest.raises(heddledb.DataError):
                await tx.execute("select 1 / 0")

    async def main():
        with pytest.raises(heddledb.OperationalError) as caught:
            await db.arun(conflict, attempts=3)
        assert caught.value.retryable
        with pytest.raises(heddledb.InternalError) as caught:
            await failed()
        assert caught.value.sqlstate == "25P02"
        # Definitions and notifications have waited when the transaction ends.
        await db.arun(lambda tx: tx.execute("create table later (id int)"))
        await db.arun(lambda tx: tx.execute("select pg_notify('news', 'n')"))

    asyncio.run(main())
    assert (number(db, 1), number(db, 2)) == (3, 0)
    assert db.run(lambda tx: tx.execute("select count(*) from later").fetchone()) == (0,)


def test_a_function_that_returns_a_coroutine_is_refused_and_rolled_back(db):
    async def later():
        pass

    def wrong(tx):
        tx.execute("update counter set n = 7")
        return later()

    with pytest.raises(TypeError, match="async def"):
        asyncio.run(db.arun(wrong))
    assert number(db) == 0
