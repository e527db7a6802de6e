# The rules of a domain hold for the domains over it, and change with it; a type is kept by the domains over it.
create domain d1 as int check (value > 0)
create domain d2 as d1 check (value < 100)
create domain d3 as d2
create table dt (id int primary key, a d3)
insert into dt values (1, -1)
insert into dt values (1, 100)
insert into dt values (1, 7)
select '0'::d3
select '5'::d3
select typname, typbasetype::regtype, typnotnull from pg_type where typname in ('d1', 'd2', 'd3') order by 1
select conname, contypid::regtype from pg_constraint where contypid in ('d1'::regtype, 'd2'::regtype, 'd3'::regtype) order by 1
drop domain d1
drop type d2
alter domain d1 add constraint odd check (value % 2 = 1)
select '8'::d3
insert into dt values (2, 8)
alter domain d1 add constraint large check (value > 50)
alter domain d1 drop constraint odd
select '8'::d3
alter domain d1 drop constraint d1_check
select '-8'::d2
alter domain d1 set not null
select null::d3
insert into dt values (3, null)
create function of_d3(x d3) returns d3 language plpgsql as 'begin return x; end'
select of_d3(null)
select of_d3(100)
drop domain d1 cascade
select typname from pg_type where typname in ('d1', 'd2', 'd3')
select * from dt
create type en as enum ('a')
create domain de as en
drop type en
drop type en cascade
select typname from pg_type where typname in ('en', 'de')
create table rt (x int)
create domain dr as rt
drop table rt
drop table rt cascade
select typname from pg_type where typname in ('rt', 'dr')
# Rows of composite types as values of domains.
create type cty as (a int, b text)
create domain dc as cty check ((value).a > 0)
drop type cty
create function fda() returns dc language plpgsql as $$ begin return row(-1, 'x'::text); end $$
select fda()
create function fdb() returns dc language sql as $$ select row(-1, 'x')::cty $$
select fdb()
create function fde() returns int language plpgsql as $$ declare x dc; begin x.a := -1; return 1; end $$
select fde()
create function fdf() returns int language plpgsql as $$ declare x dc := row(-1, 'x'); begin return 1; end $$
select fdf()
create function fdg() returns int language plpgsql as $$ declare x dc; begin select -1, 'x' into x; return 1; end $$
select fdg()
create function fdh(x dc) returns int language plpgsql as $$ begin return x.a; end $$
select fdh(row(-1, 'x'))
select fdh(row(1, 'x'))
create function fdi(out x dc) language plpgsql as $$ begin x := row(-1, 'x'); end $$
select fdi()
create function fdj() returns table (x dc) language plpgsql as $$ begin x := row(-1, 'x'); return next; end $$
select fdj()
create function fdk() returns dc language plpgsql as $$ begin return row(1, 'x'::text); end $$
select fdk()
select (fdk()).a
create domain dnn as cty not null
create function fdl() returns int language plpgsql as $$ declare x dnn; begin return 1; end $$
select fdl()
create function fdm() returns dnn language plpgsql as $$ begin return null; end $$
select fdm()
create function fdn() returns dnn language sql as $$ select null::cty $$
select fdn()
create table tdc (id int primary key, c dc)
insert into tdc values (1, row(-1, 'x'))
insert into tdc values (1, row(1, 'x'))
update tdc set c.a = -1
select (c).a from tdc
# Fields of rows that are values of domains.
create domain pos as int check (value > 0)
create domain filled as text not null
create table parts (a pos, b filled)
create table wholes (id int primary key, p parts)
select row(-1, 'x')::parts
select row(1, null)::parts
select row(1, 'x')::parts
select '(-1,x)'::parts
select '(1,)'::parts
select '(1,x)'::parts, null::parts
insert into wholes values (1, row(-1, 'x'))
insert into wholes values (1, '(-1,x)')
insert into wholes values (1, row(1, null))
insert into wholes values (1, row(1, 'x'))
insert into wholes values (2, null)
insert into wholes (id, p.a) values (3, -1)
update wholes set p.a = -1 where id = 1
update wholes set p.b = null where id = 1
update wholes set p.a = 5, p.b = 'y' where id = 1
select * from wholes order by id
create table nests (w wholes)
insert into nests values (row(1, row(-1, 'x')))
insert into nests values ('(1,"(-1,x)")')
insert into nests values ('(1,"(1,x)")'), ('(1,)'), (null)
select * from nests
select 'pos'::regtype, to_regtype('pos'), 'pos'::regtype = 'int4'::regtype, 'pos'::regtype::oid = (select oid from pg_type where typname = 'pos')
