-- Clusters the two large tables by the order date, which most queries restrict, directly or through the later dates. Within
-- a bin of dates, rows are sorted by order, so that keys compress well and matching rows of a join are close.
ALTER TABLE orders SET DESIGN (cluster = 'o_orderdate', sort = 'o_orderkey');
ALTER TABLE lineitem SET DESIGN (cluster = 'l_orderkey.o_orderdate:7', sort = 'l_orderkey');
