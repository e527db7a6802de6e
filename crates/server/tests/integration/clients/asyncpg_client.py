"""asyncpg against a server: binary types, prepared statements, transactions, errors, COPY, cursors, cancellation, LISTEN.

Usage: asyncpg_client.py HOST PORT USER DATABASE [PASSWORD]
"""

import asyncio
import datetime as dt
import decimal
import sys
import uuid

import asyncpg

HOST, PORT, USER, DATABASE = sys.argv[1:5]
PASSWORD = sys.argv[5] if len(sys.argv) > 5 else None


async def connect():
    return await asyncpg.connect(host=HOST, port=int(PORT), user=USER, database=DATABASE, password=PASSWORD)


TYPES = [
    ("bool", True), ("int2", -7), ("int4", 70000), ("int8", 2**40), ("float4", 1.5), ("float8", -2.25),
    ("numeric", decimal.Decimal("-12345678901234567890.0123")), ("text", "naïve ☃"), ("varchar", "v"),
    ("bytea", b"\x00\x01\xff"), ("date", dt.date(2024, 2, 29)), ("time", dt.time(23, 59, 58, 123456)),
    ("timestamp", dt.datetime(2024, 2, 29, 1, 2, 3, 456789)),
    ("timestamptz", dt.datetime(2024, 2, 29, 1, 2, 3, tzinfo=dt.timezone.utc)),
    ("interval", dt.timedelta(days=3, seconds=5)), ("uuid", uuid.UUID(int=0x1234567890)),
    ("int4[]", [1, 2, None, 4]), ("text[]", ["a", 'b"c', None]), ("jsonb", '{"a": [1, null]}'), ("json", '{"a": 1}'),
]


async def types():
    conn = await connect()
    for name, value in TYPES:
        assert await conn.fetchval(f"SELECT $1::{name}", value) == value, name
        assert await conn.fetchval(f"SELECT $1::{name}", None) is None, name
    await conn.execute("DROP TABLE IF EXISTS a_mood")
    await conn.execute("DROP TYPE IF EXISTS a_mood_kind")
    await conn.execute("CREATE TYPE a_mood_kind AS ENUM ('sad', 'happy')")
    await conn.execute("CREATE TABLE a_mood (id int PRIMARY KEY, kind a_mood_kind, kinds a_mood_kind[])")
    await conn.execute("INSERT INTO a_mood VALUES ($1, $2, $3)", 1, "happy", ["sad", "happy"])
    row = await conn.fetchrow("SELECT * FROM a_mood")
    assert tuple(row) == (1, "happy", ["sad", "happy"]), row
    await conn.close()


async def statements():
    conn = await connect()
    await conn.execute("DROP TABLE IF EXISTS a_item")
    await conn.execute("CREATE TABLE a_item (id int PRIMARY KEY, name text)")
    insert = await conn.prepare("INSERT INTO a_item VALUES ($1, $2)")
    for i in range(10):
        await insert.fetch(i, f"n{i}")
    await conn.executemany("INSERT INTO a_item VALUES ($1, $2)", [(i, f"n{i}") for i in range(10, 500)])
    assert await conn.fetchval("SELECT count(*) FROM a_item") == 500
    try:
        await conn.executemany("INSERT INTO a_item VALUES ($1, $2)", [(1000, "x"), (1, "dup"), (1001, "y")])
        raise AssertionError("a duplicate key was accepted")
    except asyncpg.UniqueViolationError as error:
        assert error.constraint_name == "a_item_pkey"
    assert await conn.fetchval("SELECT count(*) FROM a_item") == 500, "executemany is atomic"
    select = await conn.prepare("SELECT name FROM a_item WHERE id = $1")
    assert [attribute.type.name for attribute in select.get_attributes()] == ["text"]
    assert await select.fetchval(7) == "n7"
    await conn.close()


async def transactions():
    conn = await connect()
    await conn.execute("DROP TABLE IF EXISTS a_tx")
    await conn.execute("CREATE TABLE a_tx (id int PRIMARY KEY)")
    async with conn.transaction():
        await conn.execute("INSERT INTO a_tx VALUES (1)")
        try:
            async with conn.transaction():
                await conn.execute("INSERT INTO a_tx VALUES (1)")
        except asyncpg.UniqueViolationError:
            pass
        await conn.execute("INSERT INTO a_tx VALUES (2)")
        portal = conn.cursor("SELECT g FROM generate_series(1, 105) AS g", prefetch=10)
        assert [row[0] async for row in portal] == list(range(1, 106))
        portal = await conn.cursor("SELECT g FROM generate_series(1, $1::int) AS g", 105)
        assert await portal.forward(10) == 10
        assert [row[0] for row in await portal.fetch(5)] == list(range(11, 16))
        assert await portal.forward(1000) == 90
        assert await portal.fetchrow() is None
    assert await conn.fetchval("SELECT count(*) FROM a_tx") == 2
    await conn.close()


async def copy():
    conn = await connect()
    await conn.execute("DROP TABLE IF EXISTS a_copy")
    await conn.execute("CREATE TABLE a_copy (id int, t text, n numeric)")
    records = [(i, None if i % 3 else f"t{i}", decimal.Decimal(i) / 4) for i in range(3000)]
    assert await conn.copy_records_to_table("a_copy", records=records) == "COPY 3000"
    assert [tuple(row) for row in await conn.fetch("SELECT * FROM a_copy ORDER BY id")] == records
    chunks = []

    async def keep(data):
        chunks.append(data)

    assert await conn.copy_from_query("SELECT id FROM a_copy ORDER BY id", output=keep) == "COPY 3000"
    assert b"".join(chunks).split() == [str(i).encode() for i in range(3000)]
    await conn.close()


async def cancel():
    conn = await connect()
    try:
        await conn.execute("SELECT pg_sleep(60)", timeout=0.3)
        raise AssertionError("it was not canceled")
    except asyncio.TimeoutError:
        pass
    assert await conn.fetchval("SELECT 1") == 1
    await conn.close()


async def pool():
    async with asyncpg.create_pool(
        host=HOST, port=int(PORT), user=USER, database=DATABASE, password=PASSWORD, min_size=2, max_size=8
    ) as connections:
        async def add(i):
            async with connections.acquire() as conn:
                return await conn.fetchval("SELECT $1::int + 1", i)
        assert await asyncio.gather(*(add(i) for i in range(100))) == list(range(1, 101))


async def listen():
    listener, sender = await connect(), await connect()
    heard = asyncio.Queue()
    await listener.add_listener("news", lambda conn, pid, channel, payload: heard.put_nowait((channel, payload)))
    async with sender.transaction():
        await sender.execute("SELECT pg_notify($1, $2)", "news", "one")
        await sender.execute("NOTIFY news, 'two'")
    assert [await asyncio.wait_for(heard.get(), 10) for _ in range(2)] == [("news", "one"), ("news", "two")]
    await listener.close()
    await sender.close()


async def introspection():
    conn = await connect()
    assert await conn.fetchval("SELECT '(1,2)'::text") == "(1,2)"
    await conn.reset()
    await conn.set_type_codec("jsonb", encoder=str, decoder=str, schema="pg_catalog")
    assert await conn.fetchval("SELECT '[1]'::jsonb") == "[1]"
    await conn.execute("DROP TABLE IF EXISTS a_types; DROP TYPE IF EXISTS a_temper; CREATE TYPE a_temper AS ENUM ('sad', 'ok')")
    await conn.execute("CREATE TABLE a_types (id int, mood a_temper, moods a_temper[])")
    row = await conn.fetchrow("INSERT INTO a_types VALUES ($1, $2, $3) RETURNING *", 1, "ok", ["sad", "ok"])
    assert tuple(row) == (1, "ok", ["sad", "ok"]), row
    assert tuple(await conn.fetchval("SELECT a_types FROM a_types")) == (1, "ok", ["sad", "ok"])
    assert await conn.fetchval("SELECT row_to_json(a_types)::text FROM a_types") == '{"id":1,"mood":"ok","moods":["sad","ok"]}'
    assert await conn.fetchval("SELECT count(*) FROM unnest($1::int[], $2::a_temper[])", [1, 2], ["ok", "sad"]) == 2
    statement = await conn.prepare("SELECT * FROM a_types WHERE id = $1")
    assert await statement.explain(1) and await statement.explain(1, analyze=True)
    await conn.reload_schema_state()
    await conn.close()


async def main():
    for check in (types, statements, transactions, copy, cancel, pool, listen, introspection):
        await check()
        print(f"asyncpg {asyncpg.__version__}: {check.__name__} ok", flush=True)


if __name__ == "__main__":
    asyncio.run(main())
