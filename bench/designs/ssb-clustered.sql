-- The fact table by the four dimensions that the queries restrict. Whole regions, nations and cities, years and months,
-- manufacturers, categories and brands share leading bits of the key, found from the data. Seven bits of
-- dates tell months apart, once the table is large enough for so many.
ALTER TABLE lineorder SET DESIGN (cluster = 'lo_orderdate.d_year:7, lo_custkey.c_region:3, lo_suppkey.s_region:3, lo_partkey.p_category:3');
