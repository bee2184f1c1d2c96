select doc->>'countrycode' as country,
       count(*) as cities,
       sum((doc->>'population')::bigint) as people,
       (array_agg(doc->>'name'
        order by (doc->>'population')::bigint desc))[1] as largest
  from public.demo_cities
 group by country
 order by people desc
 limit 5
