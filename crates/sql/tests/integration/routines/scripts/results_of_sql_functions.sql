# What a body in SQL returns is converted as in an assignment; a literal without a type is a text.
create table t (a int)
create type ct as (a int, b text)
create domain dd as int check (value > 0)
create function f1() returns int language sql as $$ select '1' $$
create function f2() returns text language sql as $$ select 1 $$
select f2()
create function f3() returns int language sql as $$ select 1.5 $$
select f3()
create function f4() returns int language sql as $$ select 'a'::text $$
create function f5() returns date language sql as $$ select '2020-01-01' $$
create function f6() returns table(a int, b text) language sql as $$ select '1', 'x' $$
create function f7() returns table(a int, b text) language sql as $$ select 1, null $$
select * from f7()
create function f8() returns int language sql as $$ select null $$
create function f9() returns int language sql as $$ values ('1') $$
create function f10() returns int language sql as $$ select '1' union select '2' $$
create function f11() returns varchar language sql as $$ select '1' $$
select f11()
create function f12() returns jsonb language sql as $$ select '{}' $$
create function f13() returns int[] language sql as $$ select '{}' $$
create function f14() returns int[] language sql as $$ select array[]::text[] $$
create function f15() returns bool language sql as $$ select 1 $$
create function f16() returns int language sql as $$ select true $$
create function f17() returns int language sql return '1'
create function f19() returns int language sql return 1.5
select f19()
create function f20() returns int language sql as $$ insert into t values (1) returning '1' $$
create function f21() returns dd language sql as $$ select -1 $$
select f21()
create function f22() returns dd language sql as $$ select '1' $$
create function f23() returns ct language sql as $$ select 1, 'x' $$
select f23()
create function f24() returns ct language sql as $$ select row(1, 'x') $$
select f24()
create function f26() returns ct language sql as $$ select '1', 'x' $$
create function f27() returns ct language sql as $$ select '(1,x)' $$
create function f28() returns ct language sql as $$ select null $$
# A body that was not checked is when it is called, before its first statement runs.
set check_function_bodies = off
create function g1() returns int language sql as $$ select '1' $$
select g1()
create function g2() returns int language sql as $$ select 'a'::text $$
select g2()
create function g3() returns int language sql as $$ select 1, 2 $$
select g3()
create function g4() returns int language sql as $$ insert into t values (7) $$
select g4()
create function g5() returns table(a int, b int) language sql as $$ select 1 $$
select * from g5()
create function g6() returns int language sql as $$ $$
select g6()
create function g7() returns int language plpgsql as $$ begin return '1'; end $$
select g7()
create function g8() returns void language sql as $$ $$
select g8()
create function g9() returns setof int language sql as $$ select '1' $$
select * from g9()
set check_function_bodies = on
create table ft (a int)
create function h1() returns int language sql as $$ select a from ft $$
alter table ft alter a type text using a::text
select h1()
select count(*) from t
