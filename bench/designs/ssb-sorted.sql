-- Sorts the fact table of the Star Schema Benchmark by date.
ALTER TABLE lineorder SET DESIGN (design = 'column', sort = 'lo_orderdate');
