-- TATP in PL/pgSQL: a register of mobile phones, in which a quarter of the calls asks for what is not there and fails.
-- What may fail comes first: then a call that fails has done nothing else.

-- All columns of a subscriber.
create or replace function get_subscriber_data(p_s_id bigint) returns record language plpgsql as $$
declare
    v_subscriber subscriber;
begin
    select * into v_subscriber from subscriber where s_id = p_s_id;
    if not found then
        raise exception 'no such subscriber';
    end if;
    return v_subscriber;
end $$;

-- Where calls are forwarded to at a time, if the facility is active. Forwardings begin at 0, 8 or 16 o'clock: each is
-- looked up by its key.
create or replace function get_new_destination(p_s_id bigint, p_sf_type bigint, p_start bigint, p_end bigint)
returns setof text language plpgsql as $$
declare
    v_is_active boolean;
    v_start bigint;
    v_number text;
    v_destinations integer := 0;
begin
    select is_active into v_is_active from special_facility where s_id = p_s_id and sf_type = p_sf_type;
    if v_is_active is not true then
        raise exception 'no such special facility';
    end if;
    foreach v_start in array array[0, 8, 16] loop
        exit when v_start > p_start;
        select numberx into v_number from call_forwarding
         where s_id = p_s_id and sf_type = p_sf_type and start_time = v_start and end_time > p_end;
        if found then
            v_destinations := v_destinations + 1;
            return next v_number;
        end if;
    end loop;
    if v_destinations = 0 then
        raise exception 'no call forwarding at this time';
    end if;
end $$;

-- The access information of a type.
create or replace function get_access_data(p_s_id bigint, p_ai_type bigint)
returns record language plpgsql as $$
declare
    v_access record;
begin
    select data1, data2, data3, data4 into v_access from access_info where s_id = p_s_id and ai_type = p_ai_type;
    if not found then
        raise exception 'no access information';
    end if;
    return v_access;
end $$;

-- Data of a facility, which may not be there, and a bit of the subscriber that goes with them.
create or replace function update_subscriber_data(p_s_id bigint, p_sf_type bigint, p_data_a bigint)
returns void language plpgsql as $$
begin
    update special_facility set data_a = p_data_a where s_id = p_s_id and sf_type = p_sf_type;
    if not found then
        raise exception 'no such special facility';
    end if;
    update subscriber set bit_1 = (p_data_a % 2 = 1) where s_id = p_s_id;
end $$;

-- The place where the subscriber of a number is.
create or replace function update_location(p_sub_nbr text, p_vlr_location bigint) returns void language plpgsql as $$
declare
    v_s_id bigint;
begin
    select s_id into v_s_id from subscriber where sub_nbr = p_sub_nbr;
    if not found then
        raise exception 'no such subscriber';
    end if;
    update subscriber set vlr_location = p_vlr_location where s_id = v_s_id;
end $$;

-- Forwards a subscriber's calls, for a facility that must be there, from a time on that must be free.
create or replace function insert_call_forwarding(
    p_sub_nbr text, p_sf_type bigint, p_start bigint, p_end bigint, p_numberx text
) returns void language plpgsql as $$
declare
    v_s_id bigint;
begin
    select s_id into v_s_id from subscriber where sub_nbr = p_sub_nbr;
    if not found then
        raise exception 'no such subscriber';
    end if;
    perform 1 from special_facility where s_id = v_s_id and sf_type = p_sf_type;
    if not found then
        raise exception 'no such special facility';
    end if;
    insert into call_forwarding (s_id, sf_type, start_time, end_time, numberx)
    values (v_s_id, p_sf_type, p_start, p_end, p_numberx);
end $$;

-- Ends the call forwarding from a time on, which may not be there.
create or replace function delete_call_forwarding(p_sub_nbr text, p_sf_type bigint, p_start bigint)
returns void language plpgsql as $$
declare
    v_s_id bigint;
begin
    select s_id into v_s_id from subscriber where sub_nbr = p_sub_nbr;
    if not found then
        raise exception 'no such subscriber';
    end if;
    delete from call_forwarding where s_id = v_s_id and sf_type = p_sf_type and start_time = p_start;
    if not found then
        raise exception 'no such call forwarding';
    end if;
end $$;

-- Moves the subscribers of this many numbers in a row one place up (DORA, section 5.5).
create or replace function update_by_number(p_first_nbr text, p_records bigint) returns void language plpgsql as $$
declare
    v_s_id bigint;
    v_found bigint := 0;
begin
    for v_s_id in select s_id from subscriber where sub_nbr >= p_first_nbr order by sub_nbr limit p_records loop
        v_found := v_found + 1;
        update subscriber set msc_location = msc_location + 1 where s_id = v_s_id;
    end loop;
    if v_found < p_records then
        raise exception 'no such subscriber';
    end if;
end $$;
