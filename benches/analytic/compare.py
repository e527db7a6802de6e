"""TPC-H and TPC-DS beside PostgreSQL 15: every answer compared, then every query's time.

    pip install duckdb duckdb-extension-tpch duckdb-extension-tpcds 'psycopg[binary]'
    python benches/analytic/compare.py --suite tpch --heddle 'host=127.0.0.1 port=5432 dbname=heddle user=heddle' \
        --postgres 'host=/tmp dbname=tpch user=postgres' [--scale 0.1] [--load] [--pairs 5] [--only 10,35] [--out FILE]

DuckDB makes the rows and the texts of the queries. `--load` makes the tables on both sides, with the primary keys of the
specifications, and analyzes them. Each query runs in turns on both sides; the medians are printed with their ratio (above 1: PostgreSQL
is faster), the worst first. A query that is refused, answers otherwise, or passes the time limit is named with what happened.
"""

import argparse
import decimal
import importlib
import pathlib
import statistics
import sys
import tempfile
import time

import duckdb
import psycopg

KEYS = {
    "region": "r_regionkey", "nation": "n_nationkey", "supplier": "s_suppkey", "customer": "c_custkey",
    "part": "p_partkey", "partsupp": "ps_partkey, ps_suppkey", "orders": "o_orderkey",
    "lineitem": "l_orderkey, l_linenumber",
}
DS_KEYS = {
    "call_center": "cc_call_center_sk", "catalog_page": "cp_catalog_page_sk",
    "catalog_returns": "cr_item_sk, cr_order_number", "catalog_sales": "cs_item_sk, cs_order_number",
    "customer": "c_customer_sk", "customer_address": "ca_address_sk", "customer_demographics": "cd_demo_sk",
    "date_dim": "d_date_sk", "household_demographics": "hd_demo_sk", "income_band": "ib_income_band_sk",
    "inventory": "inv_date_sk, inv_item_sk, inv_warehouse_sk", "item": "i_item_sk", "promotion": "p_promo_sk",
    "reason": "r_reason_sk", "ship_mode": "sm_ship_mode_sk", "store": "s_store_sk",
    "store_returns": "sr_item_sk, sr_ticket_number", "store_sales": "ss_item_sk, ss_ticket_number",
    "time_dim": "t_time_sk", "warehouse": "w_warehouse_sk", "web_page": "wp_web_page_sk",
    "web_returns": "wr_item_sk, wr_order_number", "web_sales": "ws_item_sk, ws_order_number", "web_site": "web_site_sk",
}
TYPES = {"VARCHAR": "text", "INTEGER": "integer", "BIGINT": "bigint", "DATE": "date", "DOUBLE": "double precision"}


def source(suite, scale):
    """A DuckDB with the suite's rows."""
    database = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    package = pathlib.Path(importlib.import_module(f"duckdb_extension_{suite}").__file__).parent
    extension = next(package.glob(f"extensions/*/{suite}.duckdb_extension"))
    database.execute(f"load '{extension}'")
    if scale is not None:
        database.execute(f"call {'dbgen' if suite == 'tpch' else 'dsdgen'}(sf = {scale})")
    return database


def load(database, side, keys):
    """Makes the tables, and copies their rows."""
    for table, key in keys.items():
        columns = database.execute(f"describe {table}").fetchall()
        defined = [f"{name} {TYPES.get(kind, kind.lower())}" for name, kind, *_ in columns]
        side.execute(f"drop table if exists {table}")
        side.execute(f"create table {table} ({', '.join(defined)}, primary key ({key}))")
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "rows.csv")
            database.execute(f"copy {table} to '{path}' (format csv, header false)")
            with side.cursor() as cursor, cursor.copy(f"copy {table} from stdin (format csv)") as copy:
                with path.open("rb") as rows:
                    while block := rows.read(1 << 20):
                        copy.write(block)
    side.execute("analyze")


def plain(value):
    """A value as it is compared: numbers by twelve digits."""
    if isinstance(value, (float, decimal.Decimal)):
        return f"{float(value):.9g}"
    return "" if value is None else str(value).rstrip()


def run(side, text):
    """The rows and the milliseconds of a query, or why there are none."""
    started = time.perf_counter()
    try:
        rows = side.execute(text).fetchall()
    except psycopg.Error as error:
        return None, (time.perf_counter() - started) * 1e3, f"{error.sqlstate} {error}".splitlines()[0]
    return rows, (time.perf_counter() - started) * 1e3, None


def compare(text, sides, pairs):
    """The median times of both sides, and what differs."""
    times = {name: [] for name in sides}
    answers, failures = {}, []
    for _ in range(pairs):
        for name, side in sides.items():
            rows, taken, failure = run(side, text)
            times[name].append(taken)
            if failure:
                failures.append(f"{name}: {failure}")
            else:
                answers[name] = sorted(tuple(map(plain, row)) for row in rows)
        if failures:
            break
    found = list(answers.values())
    if len(found) == 2 and found[0] != found[1]:
        one, other = (next((row for row in a if row not in b), None) for a, b in (found, found[::-1]))
        failures.append(f"answers differ: {len(found[0])} and {len(found[1])} rows, {one} and {other}")
    return {name: statistics.median(taken) for name, taken in times.items()}, "; ".join(failures)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--suite", choices=["tpch", "tpcds"], required=True)
    parser.add_argument("--heddle", required=True)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--scale", type=float, default=0.1)
    parser.add_argument("--load", action="store_true")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--timeout", default="60s")
    options = parser.parse_args()
    database = source(options.suite, options.scale if options.load else None)
    keys = KEYS if options.suite == "tpch" else DS_KEYS
    sides = {name: psycopg.connect(getattr(options, name), autocommit=True) for name in ("heddle", "postgres")}
    if options.load:
        for name, side in sides.items():
            started = time.perf_counter()
            load(database, side, keys)
            print(f"loaded {name} in {time.perf_counter() - started:.1f} s", flush=True)
    for side in sides.values():
        side.execute(f"set statement_timeout = '{options.timeout}'")
    only = {int(number) for number in options.only.split(",") if number}
    queries = database.execute(f"select query_nr, query from {options.suite}_queries()").fetchall()
    results = []
    for number, text in queries:
        if only and number not in only:
            continue
        times, failure = compare(text, sides, options.pairs)
        results.append((times["heddle"] / times["postgres"], number, times, failure))
        print(f"{number:3} {times['heddle']:9.1f} {times['postgres']:9.1f} {failure}", file=sys.stderr, flush=True)
    print("| query | HeddleDB ms | PostgreSQL ms | ratio | |\n| ---: | ---: | ---: | ---: | --- |")
    for ratio, number, times, failure in sorted(results, reverse=True):
        print(f"| {number} | {times['heddle']:.1f} | {times['postgres']:.1f} | {ratio:.2f} | {failure} |")


if __name__ == "__main__":
    main()
