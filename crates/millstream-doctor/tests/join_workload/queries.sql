-- Queries in the shape of those of the join-order benchmark, whose numbers stand above them. Constants become parameters in
-- pg_stat_statements.
-- 2
select min(t.title) from company_name as cn, keyword as k, movie_companies as mc, movie_keyword as mk, title as t
where cn.country_code = '[7]' and k.keyword = 'keyword 77' and cn.id = mc.company_id and mc.movie_id = t.id
    and t.id = mk.movie_id and mk.keyword_id = k.id and mc.movie_id = mk.movie_id;
-- 3
select min(t.title) from keyword as k, movie_info as mi, movie_keyword as mk, title as t
where k.keyword = 'keyword 78' and mi.info in ('about 1', 'about 2', 'about 3') and t.production_year > 1950
    and t.id = mi.movie_id and t.id = mk.movie_id and mk.movie_id = mi.movie_id and k.id = mk.keyword_id;
-- 4
select min(mi_idx.info), min(t.title)
from info_type as it, keyword as k, movie_info_idx as mi_idx, movie_keyword as mk, title as t
where it.info = 'info 100' and k.keyword = 'keyword 79' and mi_idx.info > '5.0' and t.production_year > 1950
    and t.id = mi_idx.movie_id and t.id = mk.movie_id and mk.movie_id = mi_idx.movie_id and k.id = mk.keyword_id
    and it.id = mi_idx.info_type_id;
-- 6
select min(k.keyword), min(n.name), min(t.title)
from cast_info as ci, keyword as k, movie_keyword as mk, name as n, title as t
where k.keyword = 'keyword 80' and n.gender = 'f' and t.production_year > 1950 and k.id = mk.keyword_id
    and t.id = mk.movie_id and t.id = ci.movie_id and ci.movie_id = mk.movie_id and n.id = ci.person_id;
-- 7
select min(n.name), min(t.title)
from aka_name as an, cast_info as ci, info_type as it, person_info as pi, name as n, title as t
where n.name_pcode_cf = 'B27' and it.info = 'info 16' and t.production_year between 1980 and 1995 and n.id = an.person_id
    and n.id = pi.person_id and ci.person_id = n.id and t.id = ci.movie_id and it.id = pi.info_type_id
    and pi.person_id = an.person_id and pi.person_id = ci.person_id and an.person_id = ci.person_id;
-- 8
select min(an.name), min(t.title)
from aka_name as an, cast_info as ci, company_name as cn, movie_companies as mc, name as n, role_type as rt, title as t
where cn.name = 'company 70' and rt.role = 'role 4' and an.person_id = n.id and n.id = ci.person_id and ci.movie_id = t.id
    and t.id = mc.movie_id and mc.company_id = cn.id and ci.role_id = rt.id and an.person_id = ci.person_id
    and ci.movie_id = mc.movie_id;
-- 10
select min(chn.name), min(t.title)
from char_name as chn, cast_info as ci, role_type as rt, title as t
where chn.name = 'character 123' and rt.role = 'role 2' and t.production_year > 1950 and t.id = ci.movie_id
    and chn.id = ci.person_role_id and rt.id = ci.role_id;
-- 11
select min(cn.name), min(lt.link), min(t.title)
from company_name as cn, link_type as lt, movie_companies as mc, movie_link as ml, title as t
where cn.name = 'company 71' and lt.id = ml.link_type_id and ml.movie_id = t.id and t.id = mc.movie_id
    and mc.company_id = cn.id and ml.movie_id = mc.movie_id and mc.company_type_id = 2;
-- 15
select min(at.title), min(t.title)
from aka_title as at, keyword as k, movie_keyword as mk, title as t
where k.keyword = 'keyword 81' and t.production_year > 1990 and t.id = at.movie_id and t.id = mk.movie_id
    and mk.movie_id = at.movie_id and k.id = mk.keyword_id;
-- 16
select min(an.name), min(t.title)
from aka_name as an, cast_info as ci, name as n, title as t
where t.season_nr = 5 and t.episode_nr >= 40 and t.episode_nr < 50 and an.person_id = n.id and n.id = ci.person_id
    and ci.movie_id = t.id and an.person_id = ci.person_id;
-- 17
select min(n.name), min(t.title)
from cast_info as ci, name as n, title as t
where n.name = 'name 17' and n.id = ci.person_id and ci.movie_id = t.id;
-- 20
select min(t.title)
from comp_cast_type as cct, complete_cast as cc, kind_type as kt, keyword as k, movie_keyword as mk, title as t
where cct.kind = 'cast 1' and k.keyword in ('keyword 82', 'keyword 83') and t.production_year > 1950 and kt.id = t.kind_id
    and t.id = mk.movie_id and t.id = cc.movie_id and mk.movie_id = cc.movie_id and k.id = mk.keyword_id
    and cct.id = cc.subject_id;
-- 22
select min(t.title), min(mi_idx.info)
from movie_info as mi, movie_info_idx as mi_idx, title as t
where t.title = 'title 220' and mi.info_type_id = 5 and mi_idx.info < '7.0' and t.id = mi.movie_id
    and t.id = mi_idx.movie_id and mi.movie_id = mi_idx.movie_id;
-- 32
select min(lt.link), min(t1.title), min(t2.title)
from keyword as k, link_type as lt, movie_keyword as mk, movie_link as ml, title as t1, title as t2
where k.keyword = 'keyword 84' and mk.keyword_id = k.id and t1.id = mk.movie_id and ml.movie_id = t1.id
    and ml.linked_movie_id = t2.id and lt.id = ml.link_type_id and mk.movie_id = t1.id;
-- 33
select min(t1.title), min(mi_idx.info)
from link_type as lt, movie_info_idx as mi_idx, movie_link as ml, title as t1, title as t2
where t2.title = 'title 330' and lt.id = ml.link_type_id and t1.id = ml.movie_id and t2.id = ml.linked_movie_id
    and t1.id = mi_idx.movie_id;
-- Look-ups of a movie's parts, as 27 and 30 join them
select min(k.keyword) from keyword as k, movie_keyword as mk, title as t
where t.title = 'title 27' and t.id = mk.movie_id and k.id = mk.keyword_id;
select min(cn.name) from company_name as cn, movie_companies as mc, title as t
where t.title = 'title 30' and t.id = mc.movie_id and cn.id = mc.company_id;
-- 1, 5, 13, 18 and 28 read large parts of their tables, and no index would help
select min(mc.note), min(t.title), min(t.production_year)
from company_type as ct, info_type as it, movie_companies as mc, movie_info_idx as mi_idx, title as t
where ct.kind = 'type 2' and it.info = 'info 101' and mc.note not like '%(note 7)%' and ct.id = mc.company_type_id
    and t.id = mc.movie_id and t.id = mi_idx.movie_id and mc.movie_id = mi_idx.movie_id and it.id = mi_idx.info_type_id;
select min(t.title) from company_type as ct, info_type as it, movie_companies as mc, movie_info as mi, title as t
where ct.kind = 'type 1' and mc.note like '%note 1%' and mi.info in ('about 4', 'about 5') and t.production_year > 1950
    and t.id = mi.movie_id and t.id = mc.movie_id and mc.movie_id = mi.movie_id and ct.id = mc.company_type_id
    and it.id = mi.info_type_id;
select min(mi.info), min(mi_idx.info), min(t.title)
from company_name as cn, movie_companies as mc, movie_info as mi, movie_info_idx as mi_idx, kind_type as kt, title as t
where cn.country_code <> '[3]' and kt.kind = 'kind 1' and mi.movie_id = t.id and kt.id = t.kind_id and mc.movie_id = t.id
    and cn.id = mc.company_id and mi_idx.movie_id = t.id and mi.movie_id = mi_idx.movie_id and mi.movie_id = mc.movie_id;
select min(mi.info), min(t.title) from cast_info as ci, info_type as it, movie_info as mi, name as n, title as t
where ci.note in ('(voice 1)', '(voice 2)') and it.info <> 'info 3' and n.gender = 'm' and t.id = mi.movie_id
    and t.id = ci.movie_id and ci.movie_id = mi.movie_id and n.id = ci.person_id and it.id = mi.info_type_id;
select count(*), max(t.production_year)
from complete_cast as cc, movie_companies as mc, movie_keyword as mk, title as t
where t.production_year > 1990 and t.kind_id <> 3 and mk.movie_id = t.id and mc.movie_id = t.id and cc.movie_id = t.id
    and mc.movie_id = mk.movie_id and cc.subject_id = 1
