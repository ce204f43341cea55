-- The two large tables by the date of the order, which most queries bound, directly or by the dates that follow it; line
-- items also by the nation of their supplier.
ALTER TABLE orders SET DESIGN (cluster = 'o_orderdate');
ALTER TABLE lineitem SET DESIGN (cluster = 'l_orderkey.o_orderdate, l_suppkey.s_nationkey');
