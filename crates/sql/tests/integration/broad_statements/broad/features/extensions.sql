-- Extensions: CREATE, ALTER, DROP, their functions and what the catalogs show.
create extension if not exists "uuid-ossp"
create extension "uuid-ossp"
create extension if not exists "uuid-ossp" with schema public
create extension pgcrypto
create schema extensions
create extension if not exists unaccent schema extensions
create extension pg_trgm with schema extensions version '1.6' cascade
create extension btree_gin
create extension btree_gist
create extension pg_stat_statements
select extname, extversion, extnamespace::regnamespace, extrelocatable from pg_extension order by 1
select name, default_version, installed_version, comment from pg_available_extensions where name in ('pgcrypto','uuid-ossp','unaccent','plpgsql','pg_trgm','btree_gin','btree_gist','pg_stat_statements') order by 1
select name, version, installed, superuser, trusted, relocatable, schema, requires from pg_available_extension_versions where name in ('pgcrypto','uuid-ossp','unaccent','plpgsql') and version in ('1.0','1.1','1.3') order by 1, 2
create extension postgis
select uuid_generate_v5(uuid_ns_dns(), 'example.com'), uuid_generate_v3(uuid_ns_url(), 'x'), uuid_nil(), uuid_ns_oid(), uuid_ns_x500()
select substr(uuid_generate_v1()::text, 15, 1), substr(uuid_generate_v4()::text,15,1), substr(public.uuid_generate_v1mc()::text,15,1)
select digest('abc','md5'), digest('abc','sha1'), digest('\x00ff'::bytea,'SHA256'), hmac('abc','key','sha1'), hmac('a'::bytea,'b'::bytea,'sha512'), encode(digest('x','sha224'),'hex'), digest('abc','sha384')
select digest('a','foo')
select hmac('a','b','foo')
select crypt('secret','$1$abcdefgh'), crypt('secret','$2a$06$abcdefghijklmnopqrstuu'), crypt('','$1$x$foo'), crypt('längeres passwort mit mehr als sechzehn zeichen','$1$saltsalt$')
select crypt('p', gen_salt('bf')) ~ '^\$2a\$06\$.{53}$', length(gen_salt('md5')), length(gen_salt('bf', 8)), substr(gen_salt('bf',8),1,7)
select x = crypt('pw', x) from (select crypt('pw', gen_salt('bf', 4)) x) y
select gen_salt('foo')
select gen_salt('bf', 3)
select gen_salt('md5', 3)
select length(gen_random_bytes(10)), gen_random_uuid() is not null
select gen_random_bytes(0)
select gen_random_bytes(1025)
select encrypt('hello','key','aes'), encrypt('hello world 1234','0123456789abcdef0123','aes-cbc'), encrypt('hello world 1234','0123456789abcdef0123456789abcdefg','aes')
select encrypt('a','b','foo')
select decrypt('\x00','key','aes')
select decrypt('\x00112233445566778899aabbccddeeff','key','aes')
select unaccent('a')
select extensions.unaccent('Hôtel ½ Æther ŒUVRE straße Ł'), extensions.unaccent(null)
set search_path = public, extensions
select unaccent('Hôtel')
select show_trgm('Hello wörld'), show_trgm(''), show_trgm('a1 _b')
select similarity('word','two words'), word_similarity('word','two words'), strict_word_similarity('word','two words'), similarity('',''), word_similarity('',''), word_similarity('abc def','def abc xabc')
select a, b, similarity(a,b), word_similarity(a,b), strict_word_similarity(a,b), a % b, a <% b, a %> b, a <<% b, a %>> b, a <-> b, a <<-> b, a <->> b, a <<<-> b, a <->>> b from (values ('hello','help'),('foo bar','bar foo baz'),('ab','abc abd'),('Größe','grosse größe'),('aaaa','aaab aaaa aabb'),('one two three','two three four one')) v(a,b)
select show_limit(), set_limit(0.5)
select show_limit()
set pg_trgm.similarity_threshold = 0.1
select 'word' % 'wordy words', show_limit()
select 5 % 3, 'abc' % 'abd'
drop function uuid_generate_v4()
alter extension "uuid-ossp" update
alter extension "uuid-ossp" update to '9'
alter extension "uuid-ossp" set schema extensions
select extname, extnamespace::regnamespace from pg_extension where extname='uuid-ossp'
select public.uuid_nil()
select extensions.uuid_nil()
select obj_description(oid,'pg_extension') from pg_extension where extname='uuid-ossp'
comment on extension "uuid-ossp" is 'mine'
select obj_description(oid,'pg_extension') from pg_extension where extname='uuid-ossp'
comment on extension nope is 'x'
create table t (id uuid primary key default uuid_generate_v1(), b bytea default gen_random_bytes(4), s text default extensions.unaccent('é'))
insert into t default values
select count(*), max(s) from t
drop extension pgcrypto
drop extension pgcrypto cascade
drop extension "uuid-ossp", unaccent cascade
drop extension nope
drop extension if exists nope
drop schema extensions
drop schema extensions cascade
select extname from pg_extension order by 1
select proname, prosrc, probin, prolang::regproc is not null, l.lanname from pg_proc p join pg_language l on l.oid = prolang where proname='crypt'
create extension pgcrypto version '9'
create extension pgcrypto schema nos
create extension pgcrypto
create extension pg_stat_statements
