create table t(a text)
insert into t values ('x'),('yy')
create function s() returns setof t language sql as 'select * from t'
select length(c) from s() c
select c from s() c
select c.a from s() c
select a from s()
select s()
select (s()).a
select s from s()
select * from s()
select length(s) from s()
select length(a) from s()
select length(c) from s() as x(c)
create function s1() returns t language sql as 'select * from t limit 1'
select s1()
select * from s1()
select (s1()).*
select (s1()).a
select length((s1()).a)
select s1() is null
select length(c) from s1() as x(c)
select x from s1() as x(c)
create function sp() returns setof t language plpgsql as 'begin return query select * from t; end'
select * from sp()
select sp()
select length(c) from sp() as x(c)
select x from sp() x
create function sr() returns setof record language sql as 'select * from t'
select * from sr() as x(a text)
select sr()
select * from sr()
select length(x.a) from sr() as x(a text)
create function srp() returns record language plpgsql as 'declare r record; begin select 1, 2::text into r; return r; end'
select srp()
select * from srp() as (a int, b text)
select * from srp() as (a int, b int)
select * from srp() as (a int)
select * from srp()
create function o1(out a int) language sql as 'select 5'
select o1()
select * from o1()
select (o1()).a
select o1.a from o1()
select pg_typeof(o1())
create function tb1() returns table(a int) language sql as 'select 5'
select tb1()
select * from tb1()
select pg_typeof(tb1())
select tb1 from tb1()
select tb1.a from tb1()
create function fv(variadic x int[]) returns text language sql as $$ select 'variadic' $$
create function fv(a int, b int) returns text language sql as $$ select 'exact' $$
select fv(1,2)
select fv(1)
select fv(1,2,3)
select fv(variadic array[1,2])
create function fd(a int, b int default 1) returns text language sql as $$ select 'two' $$
create function fd(a int) returns text language sql as $$ select 'one' $$
select fd(1)
select fd(1,2)
create function fe(a int, b int default 1) returns text language sql as $$ select 'b' $$
create function fe(a int, c text default 'x') returns text language sql as $$ select 'c' $$
select fe(1)
select fe(1,2)
select fe(1,'y')
select fe(1, c => 'z')
select fe(1, b => 2)
create function fg(a int, b int default 1, c int default 2) returns text language sql as $$ select '3' $$
create function fg(a int, b int default 1) returns text language sql as $$ select '2' $$
select fg(1)
select fg(1,2)
select fg(1,2,3)
create function fh(a numeric, variadic b int[] default '{}') returns text language sql as $$ select 'nv' $$
create function fh(a int) returns text language sql as $$ select 'i' $$
select fh(1)
select fh(1.5)
select fh(1,2)
create function fi(a text, variadic b text[]) returns text language sql as $$ select 'vt' $$
create function fi(a text, b text) returns text language sql as $$ select 'tt' $$
select fi('a','b')
select fi('a','b','c')
select fi('a')
create table n(a int, b int)
insert into n select g, 100-g from generate_series(1,100) g
create sequence q
select distinct on (a % 3) a % 3, generate_series(1,2) from n order by a % 3, a
select distinct on (g) a, generate_series(1,2) g from n where a < 3 order by g, a
select distinct on (generate_series(1,2)) a, generate_series(1,2) g from n where a < 3
select a, nextval('q') from n order by b limit 2
select nextval('q')
select nextval('q'), a from n order by a desc limit 3
select nextval('q')
select a, nextval('q') v from n order by v limit 2
select nextval('q')
select a, nextval('q') from n order by b offset 2 limit 2
select nextval('q')
select nextval('q')
select nextval('q')
select a, nextval('q') from n where a < 4 order by random() * 0, a desc
select nextval('q')
select a % 2 k, count(*), nextval('q') from n group by 1 order by 1 desc limit 1
select nextval('q')
select a, row_number() over (order by a), nextval('q') from n order by b limit 2
select nextval('q')
create function vf(int) returns int language plpgsql as 'begin raise warning ''vf %'', $1; return $1; end'
select vf(a) from n order by b limit 2
select vf(a) x from n order by x desc limit 1 offset 98
select a, vf(a) from n where a < 4 order by b fetch first 1 rows only
select a, vf(a) + 1 as c, b from n order by b, a limit 1
select * from (select a, vf(a) from n order by b limit 1) s
with x as (select a, vf(a) from n order by b limit 1) select a from x
select array(select vf(a) from n order by b limit 1)
select (select vf(a) from n order by b limit 1)
select nextval('q')
select a, nextval('q') from n union all select 1, nextval('q') order by 1 limit 2
select nextval('q')
insert into n select vf(a), b from n order by b limit 2
