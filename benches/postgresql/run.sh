#!/usr/bin/env bash
# Runs pgbench against HeddleDB and against PostgreSQL 15, in turns, both durable and on the same disk, and prints a
# table of medians in Markdown.
#
#   benches/postgresql/run.sh [SECONDS [ROUNDS]]        (default: 5 seconds, 3 rounds)
#
# PG_BIN names PostgreSQL's programs (default: /usr/lib/postgresql/15/bin), HEDDLE the server's program (default: it is
# built), PROTOCOL its protocol (default: auto), WORK the directory for both databases (default: a temporary one).
# PostgreSQL does not run as root: then it runs as the user `postgres`.
set -euo pipefail
cd "$(dirname "$0")/../.."

SECONDS_EACH=${1:-5}
ROUNDS=${2:-3}
PG_BIN=${PG_BIN:-/usr/lib/postgresql/15/bin}
PROTOCOL=${PROTOCOL:-auto}
WORK=${WORK:-$(mktemp -d)}
if [ -z "${HEDDLE:-}" ]; then
    cargo build --release --quiet --package heddle-cli
    HEDDLE=target/release/heddle
fi
HEDDLE_PORT=25432
PG_PORT=25433

as_postgres() {
    if [ "$(id -u)" = 0 ]; then runuser -u postgres -- "$@"; else "$@"; fi
}

stop() {
    [ -z "${SERVER:-}" ] || kill "$SERVER" 2>/dev/null || true
    as_postgres "$PG_BIN/pg_ctl" -D "$WORK/pg/data" -m fast stop >/dev/null 2>&1 || true
    rm -rf "$WORK"
}
trap stop EXIT

mkdir -p "$WORK/pg"
chmod 755 "$WORK"
[ "$(id -u)" != 0 ] || chown postgres "$WORK/pg"
as_postgres "$PG_BIN/initdb" -D "$WORK/pg/data" -A trust -U postgres --locale=C.UTF-8 >/dev/null
as_postgres "$PG_BIN/pg_ctl" -w -D "$WORK/pg/data" -l "$WORK/pg/log" \
    -o "-p $PG_PORT -c listen_addresses=127.0.0.1 -c unix_socket_directories=$WORK/pg" start >/dev/null
"$HEDDLE" serve "$WORK/heddle" --listen "127.0.0.1:$HEDDLE_PORT" --protocol "$PROTOCOL" 2>"$WORK/heddle.log" &
SERVER=$!
for _ in $(seq 100); do
    grep -q ready "$WORK/heddle.log" && break
    sleep 0.1
done

client() { # PORT PROGRAM ARGUMENTS
    local port=$1 program=$2
    shift 2
    "$program" -h 127.0.0.1 -p "$port" -U postgres "$@" postgres
}

echo 'UPDATE hot SET n = n + 1 WHERE id = 1;' >"$WORK/hot.sql"
printf 'BEGIN;\n;\n;\n;\n;\n;\nEND;\n' >"$WORK/empty.sql"

# Makes pgbench's tables at this scale, and one hot counter, in both.
prepare() {
    for port in $HEDDLE_PORT $PG_PORT; do
        client "$port" pgbench -i -s "$1" --quiet >/dev/null 2>&1
        client "$port" psql -qc 'DROP TABLE IF EXISTS hot; CREATE TABLE hot (id int PRIMARY KEY, n bigint NOT NULL);
                                 INSERT INTO hot VALUES (1, 0)' 2>/dev/null
    done
}

# Transactions per second, and their mean latency in milliseconds.
measure() {
    local output
    output=$(client "$1" pgbench -n -T "$SECONDS_EACH" "${@:2}" 2>&1)
    if ! grep -q 'number of failed transactions: 0' <<<"$output"; then
        echo "failed transactions: $output" >&2
    fi
    awk '/^tps/ { tps = $3 } /^latency average/ { ms = $4 } END { printf "%.0f %.3f\n", tps, ms }' <<<"$output"
}

median() { sort -n | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

compare() { # NAME PGBENCH-ARGUMENTS
    local name=$1 round
    shift
    : >"$WORK/heddle.figures"
    : >"$WORK/pg.figures"
    for round in $(seq "$ROUNDS"); do
        measure "$HEDDLE_PORT" "$@" >>"$WORK/heddle.figures"
        measure "$PG_PORT" "$@" >>"$WORK/pg.figures"
    done
    local heddle pg heddle_ms pg_ms
    heddle=$(cut -d' ' -f1 "$WORK/heddle.figures" | median)
    pg=$(cut -d' ' -f1 "$WORK/pg.figures" | median)
    heddle_ms=$(cut -d' ' -f2 "$WORK/heddle.figures" | median)
    pg_ms=$(cut -d' ' -f2 "$WORK/pg.figures" | median)
    awk -v name="$name" -v arguments="${*/$WORK\//}" -v a="$heddle" -v b="$pg" -v x="$heddle_ms" -v y="$pg_ms" \
        'BEGIN { printf "| %s | `%s` | %d | %.2f ms | %d | %.2f ms | %.2f |\n", name, arguments, a, x, b, y, a / b }'
}

echo '| load | `pgbench` with | HeddleDB, per second | mean | PostgreSQL 15, per second | mean | ratio |'
echo '| --- | --- | --- | --- | --- | --- | --- |'
prepare 1
compare 'TPC-B, one branch' -M prepared -c 32 -j 2
compare 'TPC-B, one client' -M prepared -c 1
compare 'reads' -M prepared -S -c 8 -j 2
compare 'reads, one client' -M prepared -S -c 1
compare 'one hot counter' -M prepared -c 32 -j 2 -f "$WORK/hot.sql"
compare 'seven empty statements' -c 32 -j 2 -f "$WORK/empty.sql"
prepare 10
compare 'TPC-B, ten branches' -M prepared -c 8 -j 2
sums='SELECT (SELECT sum(abalance) FROM pgbench_accounts) = (SELECT sum(bbalance) FROM pgbench_branches)
      AND (SELECT sum(tbalance) FROM pgbench_tellers) = (SELECT sum(bbalance) FROM pgbench_branches)'
[ "$(client $HEDDLE_PORT psql -Atc "$sums")" = t ] || { echo "HeddleDB's sums are wrong" >&2; exit 1; }
