-- Sorts the fact table of the Star Schema Benchmark by date.
ALTER TABLE lineorder SET DESIGN (preset = 'column', sort = 'lo_orderdate');
