-- LIKE in PL/pgSQL: users like pages, of which some are liked by nearly everybody.

-- A user's last page, one like more of the user's, and one more of the page's: that one is only added to, so that likes of
-- a popular page need not meet.
create or replace function like_page(p_user bigint, p_page bigint) returns void language plpgsql as $$
begin
    update "user" set last_page = p_page, likes = likes + 1 where id = p_user;
    update page set likes = likes + 1 where id = p_page;
end $$;

-- A user's likes and last page, and a page's likes.
create or replace function read_likes(p_user bigint, p_page bigint, out user_likes bigint, out last_page bigint,
    out page_likes bigint) language plpgsql as $$
begin
    select u.likes, u.last_page into strict user_likes, last_page from "user" u where u.id = p_user;
    select p.likes into strict page_likes from page p where p.id = p_page;
end $$;
