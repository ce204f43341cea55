-- Clusters the fact table by the four dimensions of the queries' predicates. Values of the same region, nation, city, year,
-- month, manufacturer, category or brand share leading bits of the code; the hierarchy is found from the data. Seven bits
-- for dates distinguish months, if the table is large enough for this number of bits.
ALTER TABLE lineorder SET DESIGN (cluster = 'lo_orderdate.d_year:7, lo_custkey.c_region:3, lo_suppkey.s_region:3, lo_partkey.p_category:3');
