# A function in FROM that sees nothing of the rows beside it is called once in a statement, however often its rows are read.
create sequence s
create table t (a int)
insert into t values (1), (2), (2)
create function vol(x int) returns setof bigint language sql volatile as 'select nextval(''s'') from generate_series(1, 2)'
create function one(x int) returns bigint language plpgsql volatile as 'begin return nextval(''s''); end'
select * from t, rows from (nextval('s'), generate_series(1, t.a)) as r order by 1, 2, 3
select * from t, rows from (generate_series(1, t.a), nextval('s')) as r order by 1, 2, 3
select * from t, rows from (vol(1), generate_series(1, t.a)) as r order by 1, 2, 3
select * from t left join rows from (vol(1), generate_series(1, t.a)) as r on true order by 1, 2, 3
select * from t, rows from (one(1), generate_series(1, t.a), one(2)) with ordinality as r order by 1, 2, 3
select * from t, rows from (nextval('s')) as r order by 1
select * from t, nextval('s') as r, t u order by 1, 3
select * from t, lateral (select * from rows from (nextval('s'), generate_series(1, t.a)) x) as r order by 1, 2, 3
select t.a, (select sum(n) from rows from (nextval('s'), generate_series(1, t.a)) as r (n, m)) from t order by 1
select t.a, (select n from rows from (nextval('s')) as r (n)) from t order by 1
select t.a, (select n from nextval('s') as r (n) where t.a > 0) from t order by 1
select t.a, (select n + t.a from nextval('s') as r (n)) from t order by 1
select t.a, (select sum(n) + t.a from vol(3) as r (n)) from t order by 1
select currval('s')
with recursive r (i) as (select 1 union all select i + 1 from r, nextval('s') n where i < 3) select * from r
select currval('s')
with recursive r (i, n) as (select 1, 0::bigint union all select i + 1, x.n from r, rows from (nextval('s')) x (n) where i < 4) select * from r
select currval('s')
select count(distinct n) from t, rows from (random(), generate_series(1, t.a)) as r (n, m) where m is not null
select count(*) > 0 from t, generate_series(1, 1 + (random() * 3)::int) as r
