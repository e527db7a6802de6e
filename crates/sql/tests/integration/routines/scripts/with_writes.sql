create table said (n serial primary key, what text)
create table t(a int primary key, b int)
insert into t values (1,1),(2,2),(3,3)
do $$ declare v int; begin with d as (delete from t where a>1 returning a) select count(*) into v from d; insert into said(what) values (format('%s', v)); end $$
select what from said order by n
select * from t order by 1
insert into t values (2,2),(3,3)
do $$ declare v int; begin with d as (delete from t where a>1 returning a) select a into v from d order by a; insert into said(what) values (format('%s', v)); end $$
select what from said order by n
select * from t order by 1
insert into t values (2,2),(3,3)
create function f1() returns int language sql as 'with d as (delete from t where a > 1 returning a) select a from d order by a'
select f1()
select * from t order by 1
insert into t values (2,2),(3,3)
create function f2() returns int language sql as 'delete from t where a > 1 returning a'
select f2()
select * from t order by 1
insert into t values (2,2),(3,3)
do $$ declare v int; begin with d as (delete from t where a>1 returning a) select a into strict v from d order by a; insert into said(what) values (format('%s', v)); end $$
select what from said order by n
select * from t order by 1
with d as (update t set b = b + 10 returning a) select * from d order by a limit 1
select * from t order by 1
with d as (update t set b = b + 10 returning a) select 1 limit 0
with d as (update t set b = b + 10 returning a) select 1 where exists (select 1 from d)
with d as (update t set b = b + 10 returning a) select (select a from d limit 1) is not null
select * from t order by 1
do $$ declare r record; begin for r in with d as (update t set b = b + 100 returning a) select a from d loop exit; end loop; end $$
select * from t order by 1
create function f3() returns setof int language plpgsql as $$ begin return query with d as (update t set b = b + 1000 returning a) select a from d order by a; end $$
select * from f3() limit 1
select * from t order by 1
create function f4() returns setof int language sql as $$ with d as (update t set b = b + 1000 returning a) select a from d order by a $$
select * from f4() limit 1
select * from t order by 1
select f4() limit 1
select * from t order by 1
select 1 where exists (with d as (update t set b = 0 returning a) select * from d)
begin
declare c cursor for with d as (update t set b = 0 returning a) select * from d
rollback
do $$ declare c cursor for with d as (update t set b = 7 returning a) select a from d; v int; begin open c; fetch c into v; close c; end $$
select * from t order by 1
do $$ declare v int; begin execute 'with d as (update t set b = 8 returning a) select a from d' into v; end $$
select * from t order by 1
do $$ begin if exists(select 1 from t) then perform 1; end if; with d as (update t set b=9 returning a) insert into t select a+10,b from t; end $$
select * from t order by 1
with a as (insert into t values (50,1) returning *), b as (update t set b = b+1 where a = 50 returning *) select count(*) from b
with a as (update t set b = 1000 where a = 50 returning *), b as (update t set b = 2000 where a = 50 returning *) select (select count(*) from a), (select count(*) from b)
select * from t where a = 50
with a as (delete from t where a = 50 returning *) update t set b = 3000 where a = 50 returning *
select * from t where a = 50
