-- Composite types, and the rows of tables as types.
create type pair as (a int, b text)
create type pair as (a int)
create type point3 as (x numeric(6,2), y float8, tags text[], at timestamp(0))
create type empty_t as ()
create type dup as (a int, a text)
create type nested as (p pair, q pair[], n int)
select row(1,'x')::pair, (row(1,'x')::pair).b, '(2,"a ""q"" b")'::pair, '(,)'::pair, '(1,"")'::pair
select '(1)'::pair
select '(1,2,3)'::pair
select '1,2)'::pair
select '(1,2'::pair
select '(1,2)x'::pair
select 'x'::pair
select '(x,2)'::pair
select row(1,2,3)::pair
select row('x',2)::pair
select row(1, 2)::pair, row(1.6, true)::pair
select (row(1,'x')::pair).*
select (row(1,'x')::pair).nope
select (1).a
create table t (id int primary key, c pair, d pair[], n nested)
insert into t values (1, row(1,'one'), array[row(1,'a'),row(2,'b')]::pair[], row(row(1,'p'), array[row(2,'q')::pair], 5))
insert into t values (2, '(2,two)', '{"(3,c)","(4,\"d e\")"}', null)
insert into t (id, c) values (3, null)
insert into t (id, c.a, c.b) values (4, 10, 'ten')
insert into t (id, c.b) values (5, 'only b')
insert into t (id, c.zz) values (6, 1)
insert into t (id, id.a) values (6, 1)
insert into t (id, n.p.a, n.n) select 7, 70, 700
insert into t (id, d[1].a, d[2].b) values (8, 1, 'y')
select * from t order by id
select id, (c).a, (c).b, (t.c).b, d[1].b from t order by id
select id, (d[1]).b, (n).p, (n).q[1], ((n).p).a, (n).n from t order by id
select (c).* from t where (c).a = 2
select (t.c).* from t where id = 1
update t set c.a = 100 where id = 1 returning c
update t set c.a = (c).a + 1, c.b = 'new' where id = 1 returning c, (c).a
update t set n.p.b = 'deep', n.n = 6 where id = 1 returning n
update t set d[1].a = 99, d[2].b = 'zz' where id = 1 returning d
update t set c.a = 5 where id = 3 returning c
update t set c = row(7,'seven') where id = 3 returning c
update t set c = null where id = 3 returning c is null
update t set c.a = 'x' where id = 1
update t set c.nope = 1 where id = 1
update t set id.a = 1
update t set c = row(1,2,3)
select c is null, c is not null, (c).a is null from t order by id
select count(*), count(c), count(distinct c) from t
select c from t order by c
select c from t order by c desc nulls last
select c, count(*) from t group by c order by 1
select id from t where c = row(10,'ten')::pair order by 1
select id from t where c = '(10,ten)'
select id from t where c in (row(10,'ten')::pair, row(2,'two')::pair) order by 1
select row(1,2)::pair < row(2,1)::pair, row(1,'a')::pair = row(1,'a')::pair, row(1,null)::pair is distinct from row(1,null)::pair
select pg_typeof(c), pg_typeof(d), pg_typeof((c).a), pg_typeof(row(1,2)) from t limit 1
select c::text, d::text, c::varchar from t where id = 2
select to_json(c), row_to_json(c), to_jsonb(d), json_agg(c) from t where id = 2 group by c, d
select array_agg(c order by id) from t where id < 3
select coalesce(c, row(0,'none')::pair) from t where id = 3
select case when id = 1 then c else row(0,'z')::pair end from t order by id limit 2
select x.* from (select c from t where id = 2) s, lateral (select (s.c).*) x
select unnest(d) from t where id = 1
select (unnest(d)).* from t where id = 1
select a, b from unnest((select d from t where id = 1))
select * from unnest(array[row(1,'a')::pair, row(2,'b')::pair])
select * from unnest(array[row(1,'a')::pair, row(2,'b')::pair]) with ordinality
create function f1(p pair) returns int language sql as $$ select p.a * 2 $$
create function f2(p pair) returns pair language sql as $$ select p.a + 1, p.b || '!' $$
create function f3(p pair) returns pair language sql as $$ select row($1.a + 2, ($1).b)::pair $$
create function f4(p pair) returns pair language plpgsql as $$ declare r pair; begin r.a := p.a + 5; r.b := p.b; r := row(r.a, r.b || '?'); return r; end $$
create function f5() returns setof pair language sql as $$ select 1, 'x' union all select 2, 'y' $$
create function f6(n int) returns setof pair language plpgsql as $$ declare r pair; begin for i in 1..n loop r := (i, 'v' || i); return next r; end loop; return query select 100, 'q'::text; end $$
create function f7(v pair[]) returns int language plpgsql as $$ declare x pair; s int := 0; begin foreach x in array v loop s := s + x.a; end loop; return s; end $$
create function f8(out o pair) language plpgsql as $$ begin o := row(3,'three'); end $$
create function f9(r t) returns text language sql as $$ select r.id::text || ':' || (r.c).b $$
create function f10(id int) returns t language plpgsql as $$ declare r t; begin select * into r from t where t.id = f10.id; return r; end $$
select f1(row(4,'x')), f1((5,'y')::pair), f1('(6,z)')
select f1(c) from t where id = 2
select f2(row(4,'x')), f3(row(4,'x')), f4(row(4,'x')), (f4(row(1,'q'))).b
select * from f2(row(4,'x'))
select * from f5()
select f5()
select (f5()).b
select * from f6(2)
select f7(array[row(1,'a'),row(2,'b')]::pair[]), f7(d) from t where id = 1
select f8(), (f8()).a
select * from f8()
select f9(t) from t where id = 1
select f9(t.*) from t where id = 2
select f10(2)
select (f10(2)).c
select * from f10(2)
create table tt (o t)
insert into tt select t from t where id = 1
insert into tt values (row(9, row(9,'nine'), null, null))
select (o).id, ((o).c).b from tt order by 1
create view v as select id, (c).a as ca, c from t
select * from v where id = 2
create index on t (((c).a))
create unique index on t (((c).b)) where (c).b is not null
select id from t where (c).a = 2
insert into t (id, c.b) values (21, 'two')
alter table t add constraint ck check ((c).a is null or (c).a >= 0)
insert into t (id, c) values (22, '(-1,z)')
create table df (c pair default row(1,'dd'), g text generated always as ((c).b) stored)
insert into df default values returning *
alter type pair rename to pair2
alter type pair2 rename to pair
create type spare as (a int, b text)
alter type spare add attribute c date, drop attribute b, alter attribute a type bigint
alter type spare add attribute c int
alter type spare drop attribute nope
alter type spare drop attribute if exists nope
alter type spare alter attribute nope type int
comment on type spare is 'a spare'
comment on column spare.a is 'its a'
select col_description('spare'::regclass, 1), obj_description('spare'::regtype, 'pg_type')
create schema s
alter type spare set schema s
select '(1,2020-01-01)'::s.spare
alter type s.spare set schema public
select relname, relkind, reltype::regtype, relnatts from pg_class where relname in ('pair','t') order by 1
select attname, atttypid::regtype, attnum from pg_attribute where attrelid = 'pair'::regclass and attnum > 0
select udt_name, attribute_name, ordinal_position, data_type, attribute_udt_name, is_nullable::text, numeric_precision from information_schema.attributes where udt_schema = 'public' and udt_name <> 'spare' order by 1, 3
select user_defined_type_name, user_defined_type_category from information_schema.user_defined_types where user_defined_type_schema = 'public' order by 1
select column_name, data_type, udt_name from information_schema.columns where table_name = 't' order by ordinal_position
drop type pair
drop type spare
drop type spare
drop type if exists spare
drop type point3, empty_t
create type t as (a int)
create table pair (x int)
create table reg (a int)
select row(1,2)::nope
select null::reg, row(5)::reg, (row(5)::reg).a
do $$ declare v pair; w nested; begin v.a := 1; v.b := 'b'; w.p := v; w.p.a := 1; w.q[1] := v; if w.p::text <> '(1,b)' then raise exception '%', w; end if; insert into t (id, c) values (20, v) returning (c).a, (c).b into v; if v.a <> 1 then raise exception '%', v; end if; end $$
select (c).b from t where id = 20
do $$ declare r record; begin for r in select id, c from t where id < 3 loop if (r.c).b is null then raise exception '%', r; end if; end loop; end $$
select f9(t) from t where id = 20
select f9(t.*) from t where id = 20
-- Rows that would contain themselves.
create table own (i int)
create table outer_own (j own)
alter table own add column k own
alter table own add column k own[]
alter table own add column k outer_own
alter table own alter column i type own using null
alter table own alter column i type outer_own[] using null
create domain own_domain as own
alter table own add column k own_domain
create type own_a as (x int)
create type own_b as (y own_a)
alter type own_a add attribute z own_b
alter type own_a alter attribute x type own_b
alter type own_a alter attribute x type own_b[]
select * from own
drop domain own_domain
drop table outer_own, own
drop type own_b, own_a
