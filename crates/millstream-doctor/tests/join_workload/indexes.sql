-- The indexes that the queries need, one a line. Those on foreign keys are of the benchmark's own list, which has more of them:
-- on keys with few values, such as kind_id, which no query here needs. The others serve conditions of the queries.
create index movie_companies_movie on movie_companies (movie_id);
create index movie_companies_company on movie_companies (company_id);
create index movie_info_movie on movie_info (movie_id);
create index movie_info_idx_movie on movie_info_idx (movie_id);
create index movie_keyword_movie on movie_keyword (movie_id);
create index movie_keyword_keyword on movie_keyword (keyword_id);
create index movie_link_movie on movie_link (movie_id);
create index movie_link_linked on movie_link (linked_movie_id);
create index cast_info_movie on cast_info (movie_id);
create index cast_info_person on cast_info (person_id);
create index cast_info_role on cast_info (person_role_id);
create index complete_cast_movie on complete_cast (movie_id);
create index aka_name_person on aka_name (person_id);
create index aka_title_movie on aka_title (movie_id);
create index person_info_person on person_info (person_id);
create index keyword_keyword on keyword (keyword);
create index company_name_name on company_name (name);
create index char_name_name on char_name (name);
create index name_name on name (name);
create index title_title on title (title);
create index title_episode on title (season_nr, episode_nr);
create index name_pcode on name (name_pcode_cf)
