//! The million rows of `reports`, and one query for each class of report.

/// Makes the tables.
pub const TABLES: [&str; 6] = [
    "create table fact (id bigint primary key, few integer not null, many integer not null, number integer not null, \
     amount numeric(12,2) not null, measure double precision, label text not null, day date not null)",
    "insert into fact select i, i % 100, (i * 7919) % 100003, (i * 104729) % 1000003, \
     ((i * 31) % 100000)::numeric / 100, case when i % 50 = 0 then null else (i % 4096) / 4.0::double precision end, \
     'label ' || (i * 7919) % 5003 || ' of ' || i % 17, date '2020-01-01' + (i % 1000)::integer \
     from generate_series(1::bigint, 1000000) as s(i)",
    "create table part (id integer primary key, name text not null, region integer not null)",
    "insert into part select i, 'part ' || i, i % 10 from generate_series(0, 99) as s(i)",
    "create table account (id integer primary key, owner text not null, branch integer not null)",
    "insert into account select i, 'owner ' || i, i % 1000 from generate_series(0, 100002) as s(i)",
];

/// The queries with their names.
pub const QUERIES: [(&str, &str); 26] = [
    ("count", "select count(*) from fact"),
    (
        "filter",
        "select count(*) from fact where number < 500000 and many > 1000 and day >= date '2020-06-01'",
    ),
    ("filter numeric", "select count(*), min(id) from fact where amount between 100.00 and 200.00"),
    ("sum integer", "select sum(number), min(many), max(many), avg(few) from fact"),
    ("sum numeric", "select sum(amount), avg(amount) from fact"),
    ("sum expression", "select sum(amount * (1 + few)), sum(number - many) from fact"),
    ("sum float", "select sum(measure), avg(measure), count(measure) from fact"),
    ("group few", "select few, count(*), sum(amount), avg(measure) from fact group by few order by few"),
    (
        "group by two",
        "select few, day, count(*), sum(number) from fact group by few, day order by 4 desc, 1, 2 limit 5",
    ),
    ("group many", "select many, count(*), sum(number) from fact group by many order by 3 desc, 1 limit 5"),
    ("group text", "select label, count(*), sum(number) from fact group by label order by 3 desc, 1 limit 5"),
    ("count distinct", "select count(distinct many) from fact"),
    (
        "join few",
        "select name, count(*), sum(amount) from fact join part on part.id = few group by name order by name",
    ),
    (
        "join many",
        "select branch, count(*), sum(amount) from fact join account on account.id = many group by branch \
         order by 3 desc, 1 limit 10",
    ),
    (
        "join, group and sort",
        "select owner, count(*), sum(number) from fact join account on account.id = many where number < 900000 \
         group by owner order by 3 desc, owner limit 20",
    ),
    ("semi join", "select count(*) from fact where many in (select id from account where branch < 100)"),
    ("left join", "select count(*), count(owner) from fact left join account on account.id = number"),
    ("top rows", "select id, number, label from fact order by number desc, id limit 10"),
    ("top rows by text", "select id, label from fact order by label, id limit 1000"),
    ("sort integer", "select number, id from fact order by number offset 999990"),
    ("sort text", "select label, id from fact order by label, id offset 999990"),
    ("distinct", "select count(*) from (select distinct few, day from fact) as d"),
    (
        "window rank",
        "select max(n) from (select row_number() over (partition by few order by number) as n from fact) as w",
    ),
    (
        "window sum",
        "select max(s) from (select sum(number) over (partition by many order by id) as s from fact) as w",
    ),
    ("like", "select count(*) from fact where label like '%17 of%'"),
    (
        "correlated",
        "select count(*) from part where (select count(*) from account where account.branch = part.id) > 50",
    ),
];
