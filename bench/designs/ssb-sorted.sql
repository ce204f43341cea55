-- The Star Schema Benchmark's fact table in the order of its dates.
ALTER TABLE lineorder SET DESIGN (design = 'column', sort = 'lo_orderdate');
