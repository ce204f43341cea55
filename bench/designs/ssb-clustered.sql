-- The fact table by the four dimensions that the queries restrict. Whole regions, nations and cities, years and months,
-- manufacturers, categories and brands share leading bits of the key, found from the data.
ALTER TABLE lineorder SET DESIGN (cluster = 'lo_orderdate.d_year, lo_custkey.c_region, lo_suppkey.s_region, lo_partkey.p_category');
