# SET, RESET and NOTIFY in the bodies of routines.
create function f1() returns text language plpgsql as $$ begin set local search_path = pg_catalog; return current_setting('search_path'); end $$
select f1(), current_setting('search_path')
select current_setting('search_path')
create function f2() returns text language plpgsql as $$ begin set work_mem = '3MB'; return current_setting('work_mem'); end $$
select f2()
select current_setting('work_mem')
create function f3() returns text language plpgsql as $$ begin reset work_mem; return current_setting('work_mem'); end $$
select f3() = '3MB'
select current_setting('work_mem') = '3MB'
create function f4() returns text language sql as $$ set work_mem = '5MB'; select current_setting('work_mem') $$
select f4(), current_setting('work_mem')
select current_setting('work_mem')
create function f5() returns text stable language plpgsql as $$ begin set work_mem = '7MB'; return current_setting('work_mem'); end $$
select f5()
create function f6() returns void language plpgsql as $$ begin set nosuch = '7MB'; end $$
select f6()
create function f7() returns void language plpgsql as $$ begin execute 'set work_mem to ''9MB'''; end $$
select f7() is null, current_setting('work_mem')
begin
select f2()
rollback
select current_setting('work_mem')
create function f8() returns text language plpgsql as $$ begin begin set work_mem = '11MB'; raise exception 'x'; exception when others then null; end; return current_setting('work_mem'); end $$
select f8()
create function f9() returns text language plpgsql set work_mem = '13MB' as $$ begin set local work_mem = '15MB'; return current_setting('work_mem'); end $$
select f9(), current_setting('work_mem')
create function f10() returns void language plpgsql as $$ begin notify it_happened, 'payload'; end $$
select f10() is null
create function f11() returns void stable language plpgsql as $$ begin notify it_happened; end $$
select f11()
do $$ begin set timezone = 'America/New_York'; end $$
show timezone
reset timezone
create table t (v text)
create schema other
create table other.t (v text)
insert into other.t values ('other')
insert into t values ('public')
create function f12() returns text language plpgsql as $$ declare a text; b text; begin select v into a from t; set local search_path = other; select v into b from t; return a || b; end $$
select f12()
select f12()
drop role if exists r_of_bodies
create role r_of_bodies
create function g1() returns text language plpgsql as $$ begin set role r_of_bodies; return current_user; end $$
select g1(), current_user
reset role
create function g2() returns text language plpgsql as $$ begin set local role r_of_bodies; return current_user; end $$
select g2()
select current_user = session_user
create function g3() returns text language sql as $$ set role r_of_bodies; select current_user::text $$
select g3()
reset role
create function g4() returns boolean language plpgsql as $$ begin reset role; return current_user = session_user; end $$
set role r_of_bodies
reset role
select g4()
create function g5() returns text language plpgsql security definer as $$ begin set role r_of_bodies; return current_user; end $$
select g5()
drop role r_of_bodies
