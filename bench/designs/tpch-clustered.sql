-- The two large tables by the date of the order, which most queries bound, directly or by the dates that follow it; within
-- a date's bin by the order, which keeps keys small and joins local.
ALTER TABLE orders SET DESIGN (cluster = 'o_orderdate', sort = 'o_orderkey');
ALTER TABLE lineitem SET DESIGN (cluster = 'l_orderkey.o_orderdate:7', sort = 'l_orderkey');
