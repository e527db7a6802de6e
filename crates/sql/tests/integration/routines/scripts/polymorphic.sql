# Functions whose arguments decide types: in SQL and PL/pgSQL.
create function same(anyelement) returns anyelement language sql as 'select $1'
select same(1), same('a'::text), same(array[1,2]), pg_typeof(same(1.5)), pg_typeof(same(now()::date))
select same('a')
select same(null)
create function pair(a anyelement, b anyelement) returns anyarray language sql as 'select array[a, b]'
select pair(1, 2), pair('a'::text, 'b'), pg_typeof(pair(1::bigint, 2::bigint))
select pair(1, 'x'::text)
select pair(1, 2.5)
create function common(a anycompatible, b anycompatible) returns anycompatible language sql as 'select greatest(a, b)'
select common(1, 2.5), pg_typeof(common(1, 2.5)), common('a', 'b'), pg_typeof(common('a', 'b')), common(1::smallint, 70000)
create function first_of(anyarray) returns anyelement language sql immutable strict as 'select $1[1]'
select first_of(array[3, 4]), first_of(array['x', 'y']), first_of('{}'::int[]), first_of(null::text[])
select first_of(1)
create function sorted(a anyarray) returns anyarray language sql as 'select array(select unnest(a) order by 1)'
select sorted(array[3, 1, 2]), sorted(array['b', 'a']), sorted(array[true, false])
create function elements(anyarray) returns setof anyelement language sql as 'select unnest($1)'
select elements(array[1, 2])
select * from elements(array['a', 'b']) as e
select e, e || '!' from elements(array['a', 'b']) as e
create function largest(variadic anyarray) returns anyelement language sql as 'select max(x) from unnest($1) as x'
select largest(1, 5, 3), largest('a'::text, 'b'), largest(variadic array[1.5, 2.5])
create function swapped(a anyelement, b anyelement, out x anyelement, out y anyelement) language sql as 'select b, a'
select * from swapped(1, 2)
select (swapped('a'::text, 'b'::text)).*
create function pl(a anyelement, b anyarray) returns anyarray language plpgsql as $$ declare c a%type := a; begin return b || c; end $$
select pl(1, array[2, 3]), pl('x'::text, array['y'])
select pl(1, array['x'])
create function kind(anyelement) returns text language plpgsql as $$ begin return pg_typeof($1); end $$
select kind(1), kind('x'::varchar), kind(array[1]), kind(row(1, 2)), kind('2024-01-01'::date)
create function sets(anyelement, int) returns setof anyelement language plpgsql as $$ begin for i in 1..$2 loop return next $1; end loop; end $$
select * from sets('x'::text, 2)
select sets(1.5, 2)
create table t (id int primary key, name text)
insert into t values (1, 'a'), (2, 'b')
select same(t) from t order by id
select same(id), same(name) from t order by id
create type mood as enum ('sad', 'happy')
create function label(anyenum) returns text language sql as 'select $1::text'
select label('happy'::mood), same('sad'::mood), pair('sad'::mood, 'happy')
select label(1)
create function plain(anynonarray) returns text language sql as 'select $1::text'
select plain(1)
select plain(array[1])
create function nothing() returns anyelement language sql as 'select 1'
create function nothing(int) returns anyarray language sql as 'select array[1]'
create function nothing(anyelement) returns anycompatible language sql as 'select 1'
create function broken(anyelement) returns anyelement language sql as 'select frm'
create function broken(anyelement) returns anyelement language sql as 'select'' from'
create function broken(anyelement) returns anyelement language plpgsql as $$ begin retrn $1; end $$
select broken(1)
create function over(int) returns text language sql as $$ select 'int' $$
create function over(anyelement) returns text language sql as $$ select 'any' $$
select over(1), over(1::bigint), over('x'::text)
create or replace function same(anyelement) returns anyelement language sql as 'select $1 || $1'
select same('a'::text)
select same(1)
create view v as select same(name) as s, largest(id, 7) as l from t
select * from v order by 1
create function defaulted(a anyelement, b anyelement default null) returns anyelement language sql as 'select coalesce(b, a)'
select defaulted(1), defaulted(1, 2), defaulted('x'::text)
create index on t (first_of(array[name]))
select id from t where first_of(array[name]) = 'b'
create procedure into_table(anyelement) language plpgsql as $$ begin insert into t values (10, $1::text); end $$
call into_table(1.5)
select name from t where id = 10
select proname, pg_get_function_arguments(oid), pg_get_function_result(oid) from pg_proc where proname in ('pair', 'largest', 'swapped', 'elements') order by 1
drop function same(anyelement)
drop function pair(anyelement, anyelement)
select pair(1, 2)
